package testkit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// shardForwarder listens on a socket, the only kind of address at which vtcombo looks for MySQL, and leads each
// connection to the server of a shard. vtcombo has one such address for all shards, so the name of the database, in the
// client's first packet, tells which one is meant. A connection without a name goes to the first shard.
type shardForwarder struct {
	listener net.Listener
	shards   []string
	running  sync.WaitGroup
}

func forwardToShards(socket string, shards []*SQLServer) (*shardForwarder, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	if err != nil {
		return nil, err
	}
	f := &shardForwarder{listener: l}
	for _, s := range shards {
		f.shards = append(f.shards, s.Addr())
	}
	f.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(client)
		}
	})
	return f, nil
}

func (f *shardForwarder) path() string { return f.listener.Addr().String() }

func (f *shardForwarder) close() {
	_ = f.listener.Close()
	f.running.Wait()
}

// serve greets the client as a server does that is up, reads which shard it wants, and then only copies. The users have
// no password, so the answer fits the greeting of any server.
func (f *shardForwarder) serve(client net.Conn) {
	defer client.Close()
	var greeting []byte
	var first net.Conn
	for _, addr := range f.shards {
		var err error
		if first, greeting, err = greeted(addr); err == nil {
			break
		}
	}
	if first == nil {
		return
	}
	defer first.Close()
	if _, err := client.Write(greeting); err != nil {
		return
	}
	answer, err := readPacket(client)
	if err != nil {
		return
	}
	shard, _, err := greeted(f.shards[shardOf(answer)])
	if err != nil {
		return
	}
	defer shard.Close()
	_ = first.Close()
	if _, err := shard.Write(answer); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	for from, to := range map[net.Conn]net.Conn{client: shard, shard: client} {
		go func() {
			_, _ = io.Copy(to, from)
			ended <- struct{}{}
		}()
	}
	<-ended
}

// greeted connects to a server and reads its greeting.
func greeted(addr string) (net.Conn, []byte, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	greeting, err := readPacket(conn)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, greeting, nil
}

// readPacket reads a packet with its header: a length of three bytes and a number.
func readPacket(from io.Reader) ([]byte, error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	packet := make([]byte, 4+int(header[0])+int(header[1])<<8+int(header[2])<<16)
	copy(packet, header)
	_, err := io.ReadFull(from, packet[4:])
	return packet, err
}

// shardOf is the shard whose database is named in the answer to a greeting.
func shardOf(answer []byte) int {
	for shard := range vitessShards {
		if bytes.Contains(answer, append([]byte(shardDatabase(shard)), 0)) {
			return shard
		}
	}
	return 0
}
