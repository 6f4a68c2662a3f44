// Command bubble prints how long an hour is in a bubble of time.
package main

import (
	"fmt"
	"testing"
	"time"

	"seckill/internal/simulate"
)

func main() {
	simulate.Bubble(func(*testing.T) {
		began := time.Now()
		time.Sleep(time.Hour)
		fmt.Println(time.Since(began))
	})
}
