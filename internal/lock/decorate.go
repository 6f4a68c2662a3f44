package lock

import "context"

// AcquireFunc is the method Acquire of a [Locker].
type AcquireFunc func(ctx context.Context, key string, opts Options) (Lease, error)

// Decorate returns a Locker that acquires by acquire and is an [Inspector] or a [ForceReleaser] if l is one.
func Decorate(l Locker, acquire AcquireFunc) Locker {
	inspector, inspects := l.(Inspector)
	releaser, forces := l.(ForceReleaser)
	d := decorated{acquire}
	switch {
	case inspects && forces:
		return struct {
			decorated
			Inspector
			ForceReleaser
		}{d, inspector, releaser}
	case inspects:
		return struct {
			decorated
			Inspector
		}{d, inspector}
	case forces:
		return struct {
			decorated
			ForceReleaser
		}{d, releaser}
	}
	return d
}

type decorated struct{ acquire AcquireFunc }

// Acquire implements [Locker].
func (d decorated) Acquire(ctx context.Context, key string, opts Options) (Lease, error) {
	return d.acquire(ctx, key, opts)
}
