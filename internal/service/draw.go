package service

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"seckill/internal/room"
)

// draw is the command "api draw": it prints the position of a ticket in the draw of a waiting room, from what the room
// has published. It asks nobody.
func draw(args []string, out io.Writer) error {
	usage := fmt.Errorf("%w: api draw SEED DRAWN NUMBER, as the waiting room has told them; NUMBER is that of the ticket, from 0", errUsage)
	if len(args) != 3 {
		return usage
	}
	seed, err := hex.DecodeString(args[0])
	if err != nil {
		return usage
	}
	var n [2]int64
	for i, arg := range args[1:] {
		if n[i], err = strconv.ParseInt(arg, 10, 64); err != nil || n[i] < 0 {
			return usage
		}
	}
	if n[1] >= n[0] {
		_, err = fmt.Fprintln(out, n[1]+1) // it came later, and queues behind
		return err
	}
	_, err = fmt.Fprintln(out, room.Draw{Seed: seed}.Position(n[0], n[1]))
	return err
}
