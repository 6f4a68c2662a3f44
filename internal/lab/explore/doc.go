// Package explore tries every schedule of a lock within a budget of bad luck, and finds the shortest one that breaks
// it.
//
// What runs is the lock's own code and its own Lua scripts: two to four processes with clients of their own, and one or
// three Redis servers in this process, in a bubble of virtual time. No message arrives by itself. A [Schedule] says
// step by step what arrives, when time goes on, and what fails. The same schedule gives the same run.
//
// A run cannot be set back, so each execution begins anew: it plays the beginning of a schedule, and then goes on with
// what costs nothing. What could have happened instead at each step goes on the agenda, which is in the order of the
// [Adversity] that it costs, then of the length. So the first schedule that shows an anomaly is the shortest. An
// execution ends where the state was reached before at no higher price: the time, what each process was told and when,
// what is under way, and what the servers hold. Steps that commute lead to the same state, so that only one order of
// them goes on.
//
// A preemption is to hold back what would be next: a message of the process whose step was the last, or an older
// message of the same process. What is held back may arrive at any later step. Which of the processes that can go on
// does so costs nothing once the last one has to wait. Buyers are alike, so they come in the order of their numbers.
//
// Beyond what the search comes to in its time, schedules are sampled, as PCT does (Burckhardt et al., ASPLOS 2010):
// whoever has the highest of random priorities runs, and adversities come at random steps. Executions are numbered and
// seeded, so two runs sample the same. What one shows is shrunk as long as a smaller schedule shows it, too.
//
// What is judged is the history of the events, by package judge. Only what the history does not have is seen while it
// runs: a waiter that nobody wakes, and a holder that is told of a loss too late.
//
// What it does not cover: more processes than were run; code between two messages of one process; and a real network.
package explore
