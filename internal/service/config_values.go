package service

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// minLockWatchdog leaves enough time to repeat a failed renewal.
const minLockWatchdog = 100 * time.Millisecond

// checkAddr accepts host:port. Its errors do not show the address: a password may stand in it, also in the place of the
// port.
func checkAddr(addr string) error {
	if withCredentials(addr) {
		return errURL
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("want host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("the port is not a number from 0 to 65535")
	} else if strconv.FormatUint(n, 10) != port {
		return errors.New("the port has leading zeros")
	}
	return nil
}

func addrList(v string) ([]string, error) {
	if withCredentials(v) { // checked before splitting, since a password may contain a comma
		return nil, errURL
	}
	var addrs []string
	for a := range strings.SplitSeq(v, ",") {
		a = strings.TrimSpace(a)
		if err := checkAddr(a); err != nil {
			return nil, fmt.Errorf("address %d: %w", len(addrs)+1, err)
		}
		if slices.Contains(addrs, a) {
			return nil, fmt.Errorf("%q is given twice", a)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

func parseBool(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, errors.New("want 1 or 0, true or false")
	}
	return b, nil
}

// parseDuration accepts a duration between two. The examples are told to who gives something else.
func parseDuration(v, examples string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, errors.New("want a duration, such as " + examples)
	case d < least || d > most:
		return 0, fmt.Errorf("want %v to %v", least, most)
	}
	return d, nil
}

// maxRedisDB is more databases than any Redis has.
const maxRedisDB = 9999

// checkPrefix accepts prefixes without a hash tag, which would put all keys into one slot of a cluster, and without
// what patterns mean.
func checkPrefix(v string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9._:-]{1,32}$`).MatchString(v) {
		return errors.New("want 1 to 32 letters, digits, dots, hyphens, underscores and colons")
	}
	return nil
}

// maxWaitReplicas is more replicas than any installation waits for.
const maxWaitReplicas = 16

func parseNumber[N int | int64](v string, least, most N) (N, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		return 0, fmt.Errorf("want a number from %d to %d", least, most)
	}
	return N(n), nil
}

func oneOf(v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("want %s", strings.Join(allowed, " or "))
	}
	return nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
