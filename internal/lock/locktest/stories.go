package locktest

// stories are scripts that are always told first: what most wrong locks get wrong is
// not left to a draw, and not to how many scripts a busy machine has the time for.
func stories() []script { return []script{classic(), again(), late()} }

// classic has somebody release what is not its own any more. Whoever gets the lock in
// the second process does so by its first attempt there, as the one before did in the
// first process: numbers that count attempts are equal.
func classic() script {
	return script{
		{do: stepTry, owner: 0, process: 0},
		{do: stepTry, owner: 1, process: 0},
		{do: stepExpire},
		{do: stepTry, owner: 1, process: 1},
		{do: stepRelease, lease: 1},
		{do: stepTry, owner: 2, process: 0},
		{do: stepRelease},
		{do: stepRelease},
	}
}

// again has an owner come twice and leave once.
func again() script {
	return script{
		{do: stepTry, owner: 0, process: 0},
		{do: stepTry, owner: 0, process: 1},
		{do: stepTry, owner: 1, process: 1},
		{do: stepRelease},
		{do: stepTry, owner: 1, process: 1},
		{do: stepRelease, lease: 1},
		{do: stepTry, owner: 1, process: 0},
	}
}

// late has an owner extend what it has lost: to nobody, then to somebody.
func late() script {
	return script{
		{do: stepTry, owner: 0, process: 0},
		{do: stepExtend},
		{do: stepExpire},
		{do: stepExtend},
		{do: stepTry, owner: 1, process: 1},
		{do: stepExtend, lease: 1},
		{do: stepExtend},
	}
}
