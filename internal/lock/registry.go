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
}

// Catalogue returns all mechanisms of the project: those of one store together, from
// the weakest to the strongest.
func Catalogue() []Mechanism {
	return []Mechanism{
		{Name: "none"}, {Name: "local"},
		{Name: "setnx"}, {Name: "setnx-expire"}, {Name: "naive"}, {Name: "thread-id"},
		{Name: "uuid"}, {Name: "uuid-wrong-key"},
		{Name: "lua", Safe: true}, {Name: "reentrant", Safe: true}, {Name: "fair", Safe: true},
		{Name: "rw", Safe: true}, {Name: "multi", Safe: true}, {Name: "red", Safe: true}, {Name: "fenced", Safe: true},
		{Name: "mysql-row"}, {Name: "mysql-row-expiry", Safe: true},
		{Name: "mysql-get-lock", Safe: true}, {Name: "mysql-for-update", Safe: true},
		{Name: "zk-node", Safe: true}, {Name: "zk-queue", Safe: true},
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
