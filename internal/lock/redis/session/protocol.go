package session

import (
	_ "embed"
	"fmt"
)

// Protocol is what a mechanism does in Redis: scripts that keep to the conventions
// in the package's documentation.
type Protocol struct {
	// Name is the mechanism's, and the namespace of its keys.
	Name string
	// Sides are the ways to acquire: one, or a writer's and a reader's.
	Sides []Side
	// The Lua sources of what else is done with a lock. The functions of
	// common.lua go before each.
	Release, Renew, Leave, Inspect, Break string
	// Library is Lua source that goes before each script, after common.lua.
	Library string
	// Parts names the keys of a lock besides the lock itself and its queue.
	Parts []string
	// Plain says that a free lock may be taken with SET NX: a lock that has one
	// lease is then a string, "<lease> <owner>", and Redis needs no script for the
	// most frequent case.
	Plain bool
}

// Side is one way to acquire.
type Side struct {
	// Name is part of the names of channels. It may be empty.
	Name string
	// Acquire is the Lua source.
	Acquire string
	// EachAsks has every waiter stand in the queue in Redis. Otherwise the waiters
	// of a process stand in a line of their own, whose head alone asks.
	EachAsks bool
	// HandsOver lets a release pass the lock on to who is next in the same
	// process, as far as the script agrees.
	HandsOver bool
}

//go:embed common.lua
var commonSource string

// scripts are the operations on a lock, besides the sides' own.
type scripts struct {
	release, renew, leave, inspect, breaks script
}

func (p Protocol) scripts(cluster bool) scripts {
	return scripts{
		release: p.script(cluster, p.Release),
		renew:   p.script(cluster, p.Renew),
		leave:   p.script(cluster, p.Leave),
		inspect: p.script(cluster, p.Inspect),
		breaks:  p.script(cluster, p.Break),
	}
}

// script puts a source together. On a cluster PUBLISH cannot tell who listens.
func (p Protocol) script(cluster bool, source string) script {
	return newScript(fmt.Sprintf("local cluster = %t\n", cluster) + commonSource + p.Library + source)
}

// side is a Side with its script.
type side struct {
	Side
	acquire script
}

func (p Protocol) sides(cluster bool) []*side {
	var all []*side
	for _, s := range p.Sides {
		all = append(all, &side{Side: s, acquire: p.script(cluster, s.Acquire)})
	}
	return all
}
