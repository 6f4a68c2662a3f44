package service

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsConfig is how the connections to a store are encrypted. Off is the default.
type tlsConfig struct {
	On                        bool
	CA, ServerName, Cert, Key string // files, and a name
}

// tlsSettings returns the settings of one store: -redis-tls, -redis-tls-ca and so on.
func tlsSettings(store, what string, of func(*Config) *tlsConfig) []setting {
	text := func(name, arg, usage string, to func(*tlsConfig) *string) setting {
		return setting{name: store + "-tls-" + name, arg: arg, usage: usage + "; with -" + store + "-tls",
			set: func(c *Config, v string) error { *to(of(c)) = v; return nil }}
	}
	return []setting{
		{name: store + "-tls", arg: "", usage: "connect to " + what + " with TLS, 1.2 or newer, and check the server's certificate",
			set: func(c *Config, v string) (err error) { of(c).On, err = parseBool(v); return err }},
		text("ca", "file", "certificates of the authorities, PEM, that sign the server's (default: those of the system)", func(t *tlsConfig) *string { return &t.CA }),
		text("server-name", "name", "the name that the server's certificate is for (default: the host of its address)", func(t *tlsConfig) *string { return &t.ServerName }),
		text("cert", "file", "the client's certificate, PEM, where the server asks for one", func(t *tlsConfig) *string { return &t.Cert }),
		text("key", "file", "the key of the client's certificate, PEM", func(t *tlsConfig) *string { return &t.Key }),
	}
}

// validate checks the settings whose names begin with prefix.
func (t tlsConfig) validate(prefix string) error {
	for suffix, value := range map[string]string{"_CA": t.CA, "_SERVER_NAME": t.ServerName, "_CERT": t.Cert, "_KEY": t.Key} {
		if value != "" && !t.On {
			return fmt.Errorf("%s%s is set and %s is off: set %s=1, or the connections are not encrypted", prefix, suffix, prefix, prefix)
		}
	}
	switch {
	case t.Cert != "" && t.Key == "":
		return fmt.Errorf("%s_KEY is missing: %s_CERT is set, and a certificate needs its key", prefix, prefix)
	case t.Cert == "" && t.Key != "":
		return fmt.Errorf("%s_CERT is missing: %s_KEY is set, and a key needs its certificate", prefix, prefix)
	}
	return nil
}

// load reads the files; nil if TLS is off.
func (t tlsConfig) load(prefix string) (*tls.Config, error) {
	if !t.On {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%s_CA: %w", prefix, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s_CA: %s has no certificate in PEM", prefix, t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("%s_CERT and %s_KEY: %w", prefix, prefix, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// certificateHint adds to the error of a connection what to do about it, if a certificate is the reason.
func certificateHint(prefix string, err error) error {
	if authority, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: name the file of its authority in %s_CA", authority, prefix)
	}
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w: name the one that it is for in %s_SERVER_NAME", name, prefix)
	}
	return err
}
