// Package server is the laboratory as a page: choose an experiment, predict its outcome, watch it run, and see why.
//
//	GET  /                        the page, and its files below /static/; see package web
//	GET  /api/experiments         the experiments by the failure they show, without their outcomes; the texts in each language
//	POST /api/runs                begins a run: {"experiment", "values", "predict"}
//	POST /api/cancel              ends it
//	GET  /api/runs/{n}            what came out
//	GET  /api/runs/{n}/{i}.svg    its pictures; ?from=MS&until=MS stretches the axis, ?lang=zh draws them in Chinese, ?size=narrow for a phone
//	GET  /api/live.svg            the picture of the run that goes on; ?lang=zh
//	POST /api/bench               begins a bench: {"lock", "processes", "lease", "wait", "script"}; see package byhand
//	POST /api/bench/act           makes a move on it: {"do"}
//	GET  /api/bench.svg           its picture, which stays when it has ended; ?lang=zh
//	POST /api/schedule            plays a schedule in virtual time: {"lock", "buyers", "steps", "budget", "aim"}; see package explore
//	POST /api/schedule/answer     whether a level can be won, and how: {"level"}
//	GET  /api/schedules/{s}.svg   the picture of a schedule, as LOCK~BUYERS~STEPS; ?lang=zh, ?size=narrow
//	GET  /api/events              server-sent events: the state of the session whenever it changes
//	GET  /api/report              the session's results, as lab run --report writes them
//
// One run or bench goes on at a time. A schedule needs no server and no session: it is sent whole each time. All tabs
// share the session, which ends with the process.
//
// The server listens on the loopback interface only, because it starts processes. A page of another site that a visitor
// has open cannot drive it either: see package samesite.
package server
