package room_test

import (
	"seckill/internal/order"
	"seckill/internal/room/ledger"
)

var errPass = order.ErrPassRequired

func ledgerKey() string { return ledger.Key("t:", voucherID) }
