package lock

import (
	"fmt"
	"slices"
	"strings"
)

// Mechanism describes one way of locking. The catalogue of all mechanisms is fixed;
// which of them a process can use depends on the servers it has.
type Mechanism struct {
	Name string
	// Safe mechanisms free the key after their holder's death and never release
	// another holder's lock. The others are allowed in lab mode only.
	Safe bool
	// Passing says how a released key finds its next holder.
	Passing Passing
}

// Catalogue returns all mechanisms of the project: those of one store together, from
// the weakest to the strongest.
func Catalogue() []Mechanism {
	return []Mechanism{
		{Name: "none", Passing: PassingNone},
		{Name: "local", Passing: PassingTold},
		{Name: "setnx", Passing: PassingNone},
		{Name: "setnx-expire", Passing: PassingNone},
		{Name: "naive", Passing: PassingNone},
		{Name: "thread-id", Passing: PassingNone},
		{Name: "uuid", Passing: PassingNone},
		{Name: "uuid-wrong-key", Passing: PassingNone},
		{Name: "lua", Safe: true, Passing: PassingNone},
		{Name: "reentrant", Safe: true, Passing: PassingTold},
		{Name: "fair", Safe: true, Passing: PassingTold},
		{Name: "rw", Safe: true, Passing: PassingTold},
		{Name: "multi", Safe: true, Passing: PassingNone},
		{Name: "red", Safe: true, Passing: PassingNone},
		{Name: "fenced", Safe: true, Passing: PassingTold},
		{Name: "mysql-row", Passing: PassingNone},
		{Name: "mysql-row-expiry", Safe: true, Passing: PassingNone},
		{Name: "mysql-get-lock", Safe: true, Passing: PassingUntold},
		{Name: "mysql-for-update", Safe: true, Passing: PassingUntold},
		{Name: "zk-node", Safe: true, Passing: PassingNone},
		{Name: "zk-queue", Safe: true, Passing: PassingTold},
	}
}

// Lookup finds a mechanism in the catalogue. For an unknown name it returns
// [ErrUnknown] with a list of the known ones.
func Lookup(name string) (Mechanism, error) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(m Mechanism) bool { return m.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for j, m := range all {
			names[j] = m.Name
		}
		return Mechanism{}, fmt.Errorf("%w %q: one of %s", ErrUnknown, name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Registry holds the lockers that this process can use, by mechanism name. It does not
// change after [NewRegistry].
type Registry struct {
	lockers map[string]Locker
}

// NewRegistry returns a registry of lockers. A name that is not in the catalogue is
// [ErrUnknown], a nil locker [ErrInvalid].
func NewRegistry(lockers map[string]Locker) (*Registry, error) {
	r := &Registry{lockers: make(map[string]Locker, len(lockers))}
	for name, l := range lockers {
		if _, err := Lookup(name); err != nil {
			return nil, err
		}
		if l == nil {
			return nil, fmt.Errorf("%w: %q has no locker", ErrInvalid, name)
		}
		r.lockers[name] = l
	}
	return r, nil
}

// Locker returns the locker of a mechanism: [ErrUnknown] when the catalogue does not
// have it, [ErrNotConfigured] when this process has no server for it.
func (r *Registry) Locker(name string) (Locker, error) {
	if l, ok := r.lockers[name]; ok {
		return l, nil
	}
	if _, err := Lookup(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %q; available here: %s", ErrNotConfigured, name, strings.Join(r.Names(), ", "))
}

// Names lists the mechanisms of this registry in the catalogue's order.
func (r *Registry) Names() []string {
	var names []string
	for _, m := range Catalogue() {
		if _, ok := r.lockers[m.Name]; ok {
			names = append(names, m.Name)
		}
	}
	return names
}
