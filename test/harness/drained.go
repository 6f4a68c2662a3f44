package harness

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/service"
	"seckill/internal/testkit"
)

// abandoned is the idle time after which the entries of a dead consumer are claimed.
const abandoned = 30 * time.Second

// Drained waits until no order is in flight. To avoid waiting half a minute until the entries of a dead consumer can be
// claimed, it makes Redis count them as that old.
func (s *Sale) Drained(client *redis.Client) {
	s.T.Helper()
	for _, keys := range s.AllKeys() {
		testkit.Until(s.T, "no order of voucher "+s.Voucher+" is in flight", func() bool {
			s.age(client, keys.Orders)
			return client.XLen(s.T.Context(), keys.Orders).Val() == 0
		})
	}
}

// age makes entries that were idle for two seconds count as abandoned.
func (s *Sale) age(client *redis.Client, stream string) {
	s.T.Helper()
	held, err := client.XPendingExt(s.T.Context(), &redis.XPendingExtArgs{
		Stream: stream, Group: ledger.Group, Start: "-", End: "+", Count: 1000, Idle: 2 * time.Second,
	}).Result()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return // the stream is new after a rebuild, and no worker has created its group yet
	}
	for _, e := range held {
		if err == nil && e.Idle < abandoned {
			err = client.Do(s.T.Context(), "XCLAIM", stream, ledger.Group, e.Consumer, 2000, e.ID, "IDLE", abandoned.Milliseconds(), "JUSTID").Err()
		}
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// Keys returns the keys of a voucher that is not split.
func (s *Sale) Keys() ledger.Keys {
	s.T.Helper()
	return s.AllKeys()[0]
}

// AllKeys returns the keys of all buckets.
func (s *Sale) AllKeys() []ledger.Keys {
	s.T.Helper()
	id, err := strconv.ParseInt(s.Voucher, 10, 64)
	if err != nil {
		s.T.Fatal(err)
	}
	all := make([]ledger.Keys, max(1, s.Buckets))
	for b := range all {
		all[b] = ledger.KeysOf(service.KeyPrefix, id, b)
	}
	return all
}

// StatusOf returns the status of an order, as its user sees it, or the code of the problem. It repeats the query until
// the answer is neither a network error nor unavailable, as a client does: on a busy machine a server may be late. It
// may be called from any goroutine.
func (s *Sale) StatusOf(i int, order string, user int) (told string) {
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		told = s.statusNow(i, order, user)
		if !strings.HasPrefix(told, "503") && !strings.HasPrefix(told, "network") {
			return told
		}
	}
	return told
}

// statusNow is one query of statusOf.
func (s *Sale) statusNow(i int, order string, user int) string {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, s.URLs[i%len(s.URLs)]+"/api/v1/orders/"+order, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	resp, err := s.Client.Do(req)
	if err != nil {
		return "network: " + err.Error()
	}
	defer resp.Body.Close()
	var got struct{ Status, Code any } // the status of a problem is a number
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return "network: " + err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return strings.TrimSpace(resp.Status + " " + asText(got.Code))
	}
	return asText(got.Status)
}

func asText(v any) string {
	text, _ := v.(string)
	return text
}
