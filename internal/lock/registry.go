package lock

import (
	"fmt"
	"strings"
)

// Registry holds the lockers that this process can use, by mechanism name. It does not change after [NewRegistry].
type Registry struct {
	lockers map[string]Locker
}

// NewRegistry returns a registry of lockers. A name that is not in the catalogue is [ErrUnknown], a nil locker
// [ErrInvalid].
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

// Locker returns the locker of a mechanism: [ErrUnknown] when the catalogue does not have it, [ErrNotConfigured] when
// this process has no server for it.
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
