package lock

import (
	"fmt"
	"slices"
	"strings"
)

// Mechanism describes one way of locking. The catalogue of all of them is fixed;
// which of them a process can use depends on the servers it was given.
type Mechanism struct {
	Name string
	// Safe mechanisms free themselves after their holder's death and never
	// release a lock that is somebody else's. The others are sold to the lab only.
	Safe bool
}

// Catalogue returns every mechanism that the project knows by name, from the
// weakest to the strongest of its kind.
func Catalogue() []Mechanism {
	return []Mechanism{
		{Name: "none"}, {Name: "local"},
		{Name: "setnx"}, {Name: "setnx-expire"}, {Name: "naive"}, {Name: "thread-id"},
		{Name: "uuid"}, {Name: "uuid-wrong-key"},
		{Name: "lua", Safe: true}, {Name: "reentrant", Safe: true}, {Name: "fair", Safe: true},
		{Name: "rw", Safe: true}, {Name: "multi", Safe: true}, {Name: "red", Safe: true}, {Name: "fenced", Safe: true},
		{Name: "mysql-row"}, {Name: "mysql-row-expiry", Safe: true}, {Name: "mysql-get-lock", Safe: true}, {Name: "mysql-for-update", Safe: true},
		{Name: "zk-node", Safe: true}, {Name: "zk-queue", Safe: true},
	}
}

// Lookup finds a mechanism in the catalogue: [ErrUnknown], with the names there
// are, when it has none of that name.
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

// Registry holds the lockers that this process can use, by mechanism name. It is
// built once and then only read.
type Registry struct {
	lockers map[string]Locker
}

// NewRegistry checks every name against the catalogue.
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

// Locker returns the locker of a mechanism: [ErrUnknown] when the catalogue does
// not have it, [ErrNotConfigured] when this process does not.
func (r *Registry) Locker(name string) (Locker, error) {
	if l, ok := r.lockers[name]; ok {
		return l, nil
	}
	if _, err := Lookup(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %q; available here: %s", ErrNotConfigured, name, strings.Join(r.Names(), ", "))
}

// Names lists what is available here, in the catalogue's order.
func (r *Registry) Names() []string {
	var names []string
	for _, m := range Catalogue() {
		if _, ok := r.lockers[m.Name]; ok {
			names = append(names, m.Name)
		}
	}
	return names
}
