"""Permissions: who may do more than was granted, for longer, or without a line in the audit log."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

HOME = "runtime/permissions"
TESTS = "tests/runtime/permissions"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        "permissions", f"{HOME}/table.py", (f"{TESTS}/test_table.py",),
        (
            "an ended permission holds",
            "            and (each.until is None or each.until > now_s)\n            and each.permits",
            "            and each.permits",
        ),
        ("what was handed on needs nobody behind it", "if each.by not in self._trusted:\n", "if False:\n"),
        ("a giver needs no share", '"share", "", now_s, sharing) is None:', '"share", "", now_s, sharing) == 999:'),
        ("a guest is more urgent than his host", "max(cap, each.priority)", "each.priority"),
        ("a remembered decision holds for ever", "(found.until_s != _NEVER and found.until_s <= now_s)", "False"),
        ("a group has no members", "        for group in self._groups.get(principal, ()):", "        for group in ():"),
        ("access to one affordance is to all", 'f"{kind}:{name}" in self.access', "kind in str(self.access)"),
        ("a pattern is a regular expression", "re.escape(part) for part", "part for part"),
        ("the least urgent cap holds", "return min(caps, default=None)", "return max(caps, default=None)"),
    ),
    *mutations(
        "permissions", f"{HOME}/access_control.py", (f"{TESTS}/test_admission.py",),
        ("clients of this host need no permission", "        return LOCAL_USER\n", "        return None\n"),
        ("refusals are not written down", "(not is_permitted or kind in", "(kind in"),
        ("only refusals are written down", 'kind in ("write", "invoke")', "False"),
        ("operators need permissions", "        if principal in self._operators:\n", "        if False:\n"),
        ("a cap is forgotten", "found.priority is not None and (", "False and ("),
    ),
    *mutations(
        "permissions", "runtime/execution/actions/failures.py", (f"{TESTS}/test_admission.py",),
        ("an action tells what it uses", "PermissionDenied) and action.principal is not None:", "PermissionDenied) and False:"),
    ),
    *mutations(
        "permissions", "runtime/execution/intake/intake.py", (f"{TESTS}/test_admission.py",),
        ("a call without a key reaches any thing", "if is_checked and key is None and object.key is not None:", "if False:"),
        (
            "a cap does not hold", "            priority = max(priority, most_urgent)\n        if envelope.awaits",
            "        if envelope.awaits",
        ),
    ),
    *mutations(
        "permissions", f"{HOME}/thing_ids.py", ("tests/runtime/things/test_thing.py",),
        ("a key that is no URI is an id", "if key is not None and _URI.fullmatch(key):", "if key is not None:"),
    ),
    *mutations(
        "permissions", "runtime/things/thing.py", (f"{TESTS}/test_admission.py",),
        ("to read is to write", 'access[each.setter] = ("write", each.name)', 'access[each.setter] = ("read", each.name)'),
        ("a plain operation is for all", '{spec.name: ("invoke", spec.name) for spec in', '{spec.name: ("", "") for spec in'),
    ),
    *mutations(
        "permissions", f"{HOME}/sharing.py", (f"{TESTS}/test_sharing.py",),
        ("whoever has it may share it", '("share", *permission.access)', "permission.access"),
        ("a guest outlives his host", "until = found.until_s if until is None else min(until, found.until_s)", "pass"),
        ("a pattern reaches further than the giver's own", 'or any("*" in id for id in permission.things)', ""),
        ("heirs stay in the file", "if not table.is_backed(each, types, now_s)]", "if False]"),
        ("a link outlives its permission", "if each.principal not in gone)", "if True)"),
        ("one user fills the file", ">= GIVEN_MAX:", ">= 999_999:"),
        ("anybody revokes", "and (by in operators or each.by == by)", ""),
    ),
    *mutations(
        "permissions", f"{HOME}/permission_file.py", (f"{TESTS}/test_permission_file.py",),
        ("a change is not seen", "        if seen == self._seen and self.version:\n", "        if self.version:\n"),
        ("a clock set back stops the looks", "if not 0 <= now_s - self._looked_s <", "if not now_s - self._looked_s <"),
        ("what cannot be read is written", "msgspec.json.decode(data, type=Permissions).check()  #", "pass  #"),
        ("a broken file leaves the old permissions", "            self.contents = Permissions()\n        self", "        self"),
        ("others may read the file", "os.O_CLOEXEC, 0o600)\n            with", "os.O_CLOEXEC, 0o644)\n            with"),
    ),
    *mutations(
        "permissions", f"{HOME}/audit.py", (f"{TESTS}/test_permission_file.py",),
        ("a flood of refusals fills the log", "if self._refusals_count > REFUSALS_MAX:", "if False:"),
        ("the log has no bound", ">= FILE_BYTES_MAX:\n                with", "< 0:\n                with"),
    ),
)  # fmt: skip
