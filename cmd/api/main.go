// Command api serves the flash sale: see -help, or README.md.
package main

import (
	"os"

	"seckill/internal/service"
)

func main() { os.Exit(service.Command(os.Args[1:], os.Environ())) }
