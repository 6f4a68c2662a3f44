// Package httpserver is net/http's server with bounds on what a hostile or slow client can cost:
//
//	connections          in all and for each client; those beyond are answered and closed in Accept, see [Config]
//	header               its bytes, its lines, and 10 s to send it together with the body
//	requests that wait   in all and for each client, see [Limiter]
//	answers              10 s for each write, and a bounded buffer in the kernel; [Buffered] for those that are rendered
//	log                  lines for each second, see [LineLimit]
//
// It also spares what net/http does for each request and a rush does not need: see [Deadline], and reader, the one
// place that relies on how net/http reads a connection.
//
// It knows nothing of the service: what is served, and what a client is told, is given to [New].
package httpserver
