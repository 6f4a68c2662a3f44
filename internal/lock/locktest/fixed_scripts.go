package locktest

// fixedScripts run before the random ones. They cover the most frequent errors of locks,
// which must be found whatever rapid generates and however few scripts a busy machine
// can run.
func fixedScripts() []script {
	return []script{releaseAfterExpiry(), reentryThenRelease(), extendAfterLoss(), deadHolder()}
}

// releaseAfterExpiry has a holder release a lock that another owner has by then. The
// second holder gets the lock with the first attempt in its process, as the first holder
// did in the other process. So owners that only number the attempts of a process collide.
func releaseAfterExpiry() script {
	return script{
		{action: stepTry, owner: 0, process: 0},
		{action: stepTry, owner: 1, process: 0},
		{action: stepExpire},
		{action: stepTry, owner: 1, process: 1},
		{action: stepRelease, lease: 1},
		{action: stepTry, owner: 2, process: 0},
		{action: stepRelease},
		{action: stepRelease},
	}
}

// reentryThenRelease has an owner acquire twice and release once.
func reentryThenRelease() script {
	return script{
		{action: stepTry, owner: 0, process: 0},
		{action: stepTry, owner: 0, process: 1},
		{action: stepTry, owner: 1, process: 1},
		{action: stepRelease},
		{action: stepTry, owner: 1, process: 1},
		{action: stepRelease, lease: 1},
		{action: stepTry, owner: 1, process: 0},
	}
}

// extendAfterLoss has an owner extend a lease that it has lost, first while the key is
// free, then while another owner has it.
func extendAfterLoss() script {
	return script{
		{action: stepTry, owner: 0, process: 0},
		{action: stepExtend},
		{action: stepExpire},
		{action: stepExtend},
		{action: stepTry, owner: 1, process: 1},
		{action: stepExtend, lease: 1},
		{action: stepExtend},
	}
}

// deadHolder has an owner try the key of a holder that died. A lock that is a lease keeps it until its end.
func deadHolder() script {
	return script{
		{action: stepTry, owner: 0, process: 0},
		{action: stepAbandon},
		{action: stepTry, owner: 1, process: 1},
	}
}
