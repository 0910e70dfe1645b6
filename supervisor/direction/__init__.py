"""Direction: the decisions of the supervisor. All of it is pure; nothing here touches a process.

Read first: `director` (events in, effects out). `child`: what is known of each backplane. `movement` with `lifecycle` and
`orders`: which component moves to which state, and when. `restart` with `group_restart`: whether a dead backplane restarts,
when, and with which others. `ordered_restart` with `rolling` and `draining`: restarts that an operator orders. `replicas`: one
component in several backplanes. `plan`: whether the system can start at all. `reconfiguration` with `turnover`: how each
changed key takes effect, and which backplanes are added, removed or restarted for it. `graph`: walks along dependencies.
"""
