package room

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
)

// Ticket is a user's place in a room. Its text is signed, so the room needs no memory of it.
type Ticket struct {
	User int64
	// Number counts the tickets, from 0.
	Number int64
}

// Pass lets a user place one order.
type Pass struct {
	Ticket
	// Until is when it lapses, in ms of Redis' clock.
	Until int64
}

// signer signs the tickets and passes of one room.
type signer struct {
	voucher int64
	macs    *sync.Pool // of HMACs with the key: a new one costs as much as a signature
}

func newSigner(secret []byte, voucherID int64) signer {
	key := derive(secret, "sign")
	return signer{voucherID, &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// derive returns a key for one purpose.
func derive(secret []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// macSize is the length of a signature: 128 bits cannot be guessed.
const macSize = 16

// The lengths of the signed content.
const (
	ticketSize = 16
	passSize   = 24
)

var encoding = base64.RawURLEncoding.Strict()

// ticket returns the text of a ticket.
func (s signer) ticket(t Ticket) string {
	return s.sign(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(t.User)), uint64(t.Number)))
}

// pass returns the text of a pass.
func (s signer) pass(p Pass) string {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(p.User)), uint64(p.Number))
	return s.sign(binary.BigEndian.AppendUint64(text, uint64(p.Until)))
}

func (s signer) sign(content []byte) string {
	return encoding.EncodeToString(append(content, s.mac(content)...))
}

// mac covers the voucher, and by the length what it is: a ticket is no pass.
func (s signer) mac(content []byte) []byte {
	mac, _ := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	var head [9]byte
	binary.BigEndian.PutUint64(head[:], uint64(s.voucher))
	head[8] = byte(len(content))
	mac.Write(head[:])
	mac.Write(content)
	return mac.Sum(nil)[:macSize]
}

// readTicket returns the ticket of a text, if it was signed here.
func (s signer) readTicket(text string) (Ticket, bool) {
	content, ok := s.read(text, ticketSize)
	if !ok {
		return Ticket{}, false
	}
	return ticketOf(content), true
}

// readPass returns the pass of a text, if it was signed here.
func (s signer) readPass(text string) (Pass, bool) {
	content, ok := s.read(text, passSize)
	if !ok {
		return Pass{}, false
	}
	return Pass{ticketOf(content), int64(binary.BigEndian.Uint64(content[16:]))}, true
}

func ticketOf(content []byte) Ticket {
	return Ticket{User: int64(binary.BigEndian.Uint64(content)), Number: int64(binary.BigEndian.Uint64(content[8:]))}
}

func (s signer) read(text string, size int) (content []byte, ok bool) {
	if len(text) != encoding.EncodedLen(size+macSize) {
		return nil, false
	}
	all, err := encoding.DecodeString(text)
	if err != nil || !hmac.Equal(all[size:], s.mac(all[:size])) {
		return nil, false
	}
	return all[:size], true
}
