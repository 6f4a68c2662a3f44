package service

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

func labSettings() []setting {
	return []setting{
		{name: "lab-hosts", arg: "name,…", address: true, usage: "host names or addresses, without ports, that lab mode answers to beside those of loopback and the address that was connected to; a request with another Host is refused",
			set: func(c *Config, v string) (err error) { c.LabHosts, err = hostList(v); return err }},
	}
}

// hostList parses host names and addresses, separated by commas.
func hostList(v string) ([]string, error) {
	name := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)
	var hosts []string
	for h := range strings.SplitSeq(v, ",") {
		h = strings.TrimSpace(h)
		if _, err := netip.ParseAddr(strings.Trim(h, "[]")); err != nil && !name.MatchString(h) {
			return nil, fmt.Errorf("name %d is no host name or address without a port", len(hosts)+1) // it may have a password
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}
