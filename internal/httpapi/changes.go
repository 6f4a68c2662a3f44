package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill/internal/voucher"
)

var errUnconditional = errors.New("httpapi: If-Match is missing")

// changeVoucher is PATCH /api/v1/vouchers/{id}.
func (a *API) changeVoucher(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	c, err := a.newChange(r)
	if err != nil {
		return reply{}, err
	}
	body, err := r.readJSON()
	if err != nil {
		return reply{}, err
	}
	if err := decodeChange(body, &c); err != nil {
		return reply{}, err
	}
	changed, err := a.deps.Vouchers.Change(ctx, id, c)
	if err != nil {
		return reply{}, err
	}
	out, err := a.render(http.StatusOK, newVoucherJSON(changed))
	out.etag = etagOf(changed)
	return out, err
}

// deleteVoucher is DELETE /api/v1/vouchers/{id}.
func (a *API) deleteVoucher(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	c, err := a.newChange(r)
	if err == nil {
		err = r.readNothing()
	}
	if err == nil {
		err = a.deps.Vouchers.Delete(ctx, id, c)
	}
	return reply{status: http.StatusNoContent, contentType: a.problems.json, outcome: "ok"}, err
}

// etagOf returns the entity tag of what an administrator can change. The stock is not part of it: it changes all the
// time.
func etagOf(v *voucher.Voucher) string { return `"` + strconv.FormatInt(v.Revision, 10) + `"` }

// newChange returns a change without fields, made by the caller, and meant for the voucher that If-Match names. Without
// it two administrators would overwrite each other's changes unseen; * says that this is meant.
func (a *API) newChange(r *request) (c voucher.Change, err error) {
	given := strings.TrimSpace(strings.Join(r.Header.Values("If-Match"), ","))
	switch tag, opened := strings.CutPrefix(given, `"`); {
	case given == "":
		return c, fmt.Errorf("%w: send If-Match with the ETag of the voucher, or with * to change it whatever it is", errUnconditional)
	case given != "*":
		number, closed := strings.CutSuffix(tag, `"`)
		c.Revision, err = strconv.ParseInt(number, 10, 64)
		if !opened || !closed || err != nil || c.Revision <= 0 {
			return c, fmt.Errorf("%w: If-Match is %q; the ETag of the voucher is a number in quotes", voucher.ErrRevision, clip(given))
		}
	}
	c.By = voucher.Author{Name: "admin", RequestID: r.id}
	if a.cfg.Lab {
		c.By.Name = "lab"
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	c.By.Address = cmp.Or(host, r.RemoteAddr)
	if err != nil && c.By.Address == "" {
		c.By.Address = "unknown"
	}
	return c, nil
}

// decodeChange reads what is to be changed. The domain validates the values.
func decodeChange(body []byte, c *voucher.Change) error {
	some := false
	given := func(o *object, name string) bool {
		_, there := o.members[name]
		some = some || there
		return there
	}
	err := decodeObject(body, func(o *object) {
		if given(o, "title") {
			c.Title = new(string)
			o.text("title", c.Title)
		}
		if given(o, "begin_at") {
			c.BeginAt = new(time.Time)
			o.time("begin_at", c.BeginAt)
		}
		if given(o, "end_at") {
			c.EndAt = new(time.Time)
			o.time("end_at", c.EndAt)
		}
		if given(o, "paused") {
			c.Paused = new(bool)
			o.boolean("paused", c.Paused)
		}
		if given(o, "room") {
			c.Room = &voucher.RoomChange{}
			if string(o.members["room"]) == "null" {
				delete(o.members, "room")
				c.Room.Close = true
			} else {
				o.object("room", func(o *object) {
					if !given(o, "rate") {
						o.fail("room.rate is missing; how many passes are issued a second")
					}
					o.integer("rate", &c.Room.Rate)
				})
			}
		}
		if given(o, "stock") {
			o.object("stock", func(o *object) {
				if !given(o, "add") {
					o.fail("stock.add is missing; a number of units to add, or a negative one to take away")
				}
				o.integer("add", &c.AddStock)
			})
		}
	})
	if err == nil && !some {
		err = invalid("there is nothing to change; title, begin_at, end_at, stock, room or paused is expected")
	}
	return err
}

// changesJSON is a page of changes, the newest first.
type changesJSON struct {
	Changes []changeJSON `json:"changes"`
	// NextBefore is the value of ?before= for the next page; absent on the last page.
	NextBefore string `json:"next_before,omitempty"`
}

type changeJSON struct {
	Revision  int64                 `json:"revision"`
	At        time.Time             `json:"at"`
	By        string                `json:"by"`
	Address   string                `json:"address"`
	RequestID string                `json:"request_id"`
	Fields    []voucher.FieldChange `json:"fields"`
}

// listChanges is GET /api/v1/vouchers/{id}/changes.
func (a *API) listChanges(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	page, err := r.queryPage("before", newest)
	if err != nil {
		return reply{}, err
	}
	records, err := a.deps.Vouchers.Changes(ctx, id, page.from, page.limit+1)
	if err != nil {
		return reply{}, err
	}
	out := changesJSON{Changes: []changeJSON{}}
	if len(records) > page.limit {
		records = records[:page.limit]
		out.NextBefore = formatID(records[page.limit-1].Revision)
	}
	for _, c := range records {
		out.Changes = append(out.Changes, changeJSON{c.Revision, c.At, c.By.Name, c.By.Address, c.By.RequestID, c.Fields})
	}
	return a.render(http.StatusOK, out)
}
