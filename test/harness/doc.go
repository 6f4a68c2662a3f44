// Package harness is what the system tests stand on: they start the service as it runs in production, in processes of
// its own over real servers ([Start]), or in this process where nothing is killed ([StartInProcess]); put a voucher on
// sale ([OpenSale]); send buyers ([Sale.OrderAll]), through a balancer where it matters; and check what must be true at
// rest ([Sale.CheckBalanced], [Sale.CheckAllConfirmed]).
//
// Each folder beside this one is a subject. A test there says what must hold however slow the machine is; what is about
// time is a figure of make soak.
package harness
