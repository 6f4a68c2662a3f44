package service

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// certificates writes the files of an authority and of a certificate that it has signed for a name: for servers and
// clients.
func certificates(t *testing.T, name string) (ca, cert, key string) {
	t.Helper()
	folder := t.TempDir()
	write := func(file, kind string, der []byte) string {
		path := filepath.Join(folder, file)
		fail.NowIf(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	sign := func(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		fail.NowIf(t, err)
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		fail.NowIf(t, err)
		return key
	}
	authority, own := newKey(), newKey()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	ca = write("ca.pem", "CERTIFICATE", sign(root, root, authority, authority))
	cert = write("cert.pem", "CERTIFICATE", sign(leaf, root, own, authority))
	der, err := x509.MarshalPKCS8PrivateKey(own)
	fail.NowIf(t, err)
	return ca, cert, write("key.pem", "PRIVATE KEY", der)
}

// withStores is a configuration with real stores and more settings.
func withStores(t *testing.T, more ...string) Config {
	t.Helper()
	cfg, err := ParseConfig(nil, production(more...), io.Discard)
	fail.NowIf(t, err)
	return cfg
}

// wantRedis opens Redis as the settings say, and compares the error; "": it works.
func wantRedis(t *testing.T, says string, settings ...string) {
	t.Helper()
	client, err := openRedis(t.Context(), withStores(t, settings...), nil, retries)
	if err == nil {
		defer client.Close()
		err = client.Set(t.Context(), testkit.KeyPrefix(t)+"key", 1, time.Minute).Err()
	}
	if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
		t.Errorf("%v: %v, want %q", settings, err, says)
	}
}

// Redis with TLS, a user and a password, and a certificate of the client; what is missing is named.
func TestRedisWithTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t, "redis.test")
	encrypted := testkit.FreeAddr(t)
	_, port, err := net.SplitHostPort(encrypted)
	fail.NowIf(t, err)
	server := testkit.NewRedis(t, "--tls-port", port, "--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "yes")
	fail.NowIf(t, server.Client(t).Do(t.Context(), "ACL", "SETUSER", "shop", "on", ">hush-hush-2", "~*", "&*", "+@all").Err())
	all := []string{
		"SECKILL_REDIS_ADDRS=" + encrypted, "SECKILL_REDIS_USERNAME=shop", "SECKILL_REDIS_PASSWORD=hush-hush-2", "SECKILL_REDIS_TLS=1", "SECKILL_REDIS_TLS_CA=" + ca,
		"SECKILL_REDIS_TLS_SERVER_NAME=redis.test", "SECKILL_REDIS_TLS_CERT=" + cert, "SECKILL_REDIS_TLS_KEY=" + key,
	}
	but := func(change string) []string { return append(append([]string(nil), all...), change) } // the last one counts
	wantRedis(t, "", all...)
	wantRedis(t, "SECKILL_REDIS_TLS_CA", but("SECKILL_REDIS_TLS_CA=")...)
	wantRedis(t, "SECKILL_REDIS_TLS_SERVER_NAME", but("SECKILL_REDIS_TLS_SERVER_NAME=")...)
	wantRedis(t, "WRONGPASS", but("SECKILL_REDIS_PASSWORD=hush-hush-3")...)
	// The server says so after the handshake. What the client writes meanwhile may fail first.
	bare := withStores(t, append(but("SECKILL_REDIS_TLS_CERT="), "SECKILL_REDIS_TLS_KEY=")...)
	testkit.Until(t, "a certificate is asked for", func() bool {
		_, err := openRedis(t.Context(), bare, nil, retries)
		return err != nil && strings.Contains(err.Error(), "certificate required")
	})
}

// What the addresses of Redis lead to is compared with what the settings say.
func TestRedisOfAnotherKind(t *testing.T) {
	t.Parallel()
	single, cluster, sentinels := testkit.Redis(t).Addr(), testkit.RedisCluster(t), testkit.RedisSentinel(t)
	wantRedis(t, "is a node of a cluster", "SECKILL_REDIS_ADDRS="+cluster[0])
	wantRedis(t, "", "SECKILL_REDIS_ADDRS="+cluster[0], "SECKILL_REDIS_CLUSTER=1")
	wantRedis(t, "is no node of a cluster", "SECKILL_REDIS_ADDRS="+single+","+testkit.FreeAddr(t))
	wantRedis(t, "is no sentinel", "SECKILL_REDIS_ADDRS="+single, "SECKILL_REDIS_MASTER=seckill")
	wantRedis(t, "is a sentinel", "SECKILL_REDIS_ADDRS="+sentinels.Addrs[0])

	for _, addr := range sentinels.Addrs { // each with a password of its own, which the primary does not have
		client := redis.NewClient(&redis.Options{Addr: addr})
		fail.NowIf(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">hush-hush-2").Err())
		_ = client.Close()
	}
	named := []string{"SECKILL_REDIS_ADDRS=" + strings.Join(sentinels.Addrs, ","), "SECKILL_REDIS_MASTER=seckill"}
	wantRedis(t, "SECKILL_REDIS_ADDRS", named...)
	wantRedis(t, "", append(named, "SECKILL_REDIS_SENTINEL_PASSWORD=hush-hush-2")...)
}

// Two names of one server are no two lock nodes. A node that does not answer is none of them.
func TestLockNodesAreDifferentServers(t *testing.T) {
	t.Parallel()
	one, other, nobody := testkit.Redis(t).Addr(), testkit.NewRedis(t).Addr(), testkit.FreeAddr(t)
	again := strings.Replace(one, "127.0.0.1", "localhost", 1)
	for _, tc := range []struct{ addrs, says string }{
		{one + "," + other + "," + nobody, ""},
		{one + "," + other + "," + again, one + " and " + again + " are one server"},
	} {
		var nodes []*redis.Client
		for addr := range strings.SplitSeq(tc.addrs, ",") {
			node := openNode(addr, Config{}, nil, nil)
			defer node.Close()
			nodes = append(nodes, node)
		}
		err := checkIndependent(t.Context(), nodes)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.addrs, err, tc.says)
		}
	}
}

// The database with TLS: its certificate is checked, and what is missing is named.
func TestDatabaseWithTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t, "db.test")
	where := testkit.NewMariaDB(t, "--ssl-ca="+ca, "--ssl-cert="+cert, "--ssl-key="+key).Database(t)
	settings := []string{"SECKILL_MYSQL_DSN=" + where.DSN, "SECKILL_MYSQL_TLS=1", "SECKILL_MYSQL_TLS_CA=" + ca, "SECKILL_MYSQL_TLS_SERVER_NAME=db.test"}
	for change, says := range map[string]string{
		"PATH=": "", "SECKILL_MYSQL_TLS_CA=": "SECKILL_MYSQL_TLS_CA", "SECKILL_MYSQL_TLS_SERVER_NAME=": "SECKILL_MYSQL_TLS_SERVER_NAME",
		"SECKILL_MYSQL_DSN=" + where.DSN + "?tls=true": "both given",
	} {
		db, err := openDatabase(t.Context(), withStores(t, append(settings, change)...), "", slog.New(slog.DiscardHandler))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", change, err, says)
		}
		if err != nil {
			continue
		}
		for name, pool := range db.Pools() {
			var variable, version string
			if err := pool.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Ssl_version'").Scan(&variable, &version); err != nil || !strings.HasPrefix(version, "TLSv1.") {
				t.Errorf("%s: TLS %q, %v", name, version, err)
			}
		}
		fail.If(t, db.Close())
	}
}

// Pools that are larger than what the database allows are reported when the service starts, and pools of the right size
// are not.
func TestPoolsAgainstConnectionsOfTheDatabase(t *testing.T) {
	t.Parallel()
	where := testkit.NewMariaDB(t, "--max-connections=60").Database(t)
	for settings, reported := range map[string]bool{
		"": true, "SECKILL_MYSQL_READERS=16 SECKILL_MYSQL_WRITERS=8 SECKILL_MYSQL_LOCKS=8": false,
	} {
		var logs bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logs, nil))
		db, err := openDatabase(t.Context(), withStores(t, append(strings.Fields(settings), "SECKILL_MYSQL_DSN="+where.DSN)...), "", log)
		fail.NowIf(t, err)
		warnConnections(t.Context(), db, log)
		if got := logs.String(); strings.Contains(got, "pools=72 max_connections=60 max_user_connections=0") != reported || reported != (got != "") {
			t.Errorf("%s: logged %q", settings, got)
		}
		fail.If(t, db.Close())
	}
}
