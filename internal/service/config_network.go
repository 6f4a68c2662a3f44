package service

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// checkDebugAddr accepts host:port, and network:port as in 10.1.0.0/24:9100.
func checkDebugAddr(addr string) error {
	if err := checkAddr(addr); err != nil {
		return err
	}
	_, _, err := networkOf(addr)
	return err
}

// networkOf returns the network that an address names in place of a host, and the port. The network is not valid if the
// address names a host.
func networkOf(addr string) (network netip.Prefix, port string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !strings.Contains(host, "/") {
		return netip.Prefix{}, port, err
	}
	if network, err = netip.ParsePrefix(host); err != nil {
		return netip.Prefix{}, port, errors.New("want a network as in 10.1.0.0/24:9100")
	}
	return network, port, nil
}

// inNetwork replaces a network by this machine's address in it. A container that is in several networks has an address
// in each, which it learns when it starts.
func inNetwork(addr string, mine []net.Addr) (string, error) {
	network, port, err := networkOf(addr)
	if err != nil || !network.IsValid() {
		return addr, err
	}
	for _, a := range mine {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && network.Masked().Contains(prefix.Addr().Unmap()) {
			return net.JoinHostPort(prefix.Addr().Unmap().String(), port), nil
		}
	}
	return "", fmt.Errorf("no address of this machine is in %s: it has %v", network, mine)
}

// debugAddr is where the debug listener listens: SECKILL_DEBUG_ADDR, whose network has become an address.
func (c *Config) debugAddr() (string, error) {
	mine, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("SECKILL_DEBUG_ADDR: %w", err)
	}
	addr, err := inNetwork(c.DebugAddr, mine)
	if err != nil {
		return "", fmt.Errorf("SECKILL_DEBUG_ADDR is %q: %w", c.DebugAddr, err)
	}
	return addr, nil
}
