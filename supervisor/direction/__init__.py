"""Direction: what happens next in a system. All of it decides, nothing here touches a process.

Read first: `director` (events in, effects out). `movement` with `lifecycle` and `orders`: who may go where, and when.
`restart` with `group_restart`: whether again, when, and with whom; `ordered_restart` with `rolling` and `draining`: because
somebody wants it. `replicas`: one component in several places. `plan`: whether it can come up at all.
`reconfiguration` with `turnover`: what another configuration takes, and who comes, goes or starts again for it.
"""
