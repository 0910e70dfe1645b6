"""Things: what is published, what is served from the cache, and to whom."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

THINGS = "runtime/things"
WEB = f"{THINGS}/web"
TESTS = "tests/runtime/things"


def thing(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to describe a thing wrongly, or to keep a change to itself."""
    return Mutation(
        "things", f"{THINGS}/{file}", text, replacement, breaks, (f"{TESTS}/test_thing.py", f"{TESTS}/test_schemas.py")
    )


def web(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to answer with an old value, or to a stranger."""
    return Mutation(
        "things",
        f"{THINGS}/{file}" if file == "catalogue.py" else f"{WEB}/{file}",
        text,
        replacement,
        breaks,
        (f"{TESTS}/web/test_parts.py", f"{TESTS}/web/test_gateway.py"),
    )


def sign_in(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to let somebody in, or to keep somebody in."""
    tests = (f"{TESTS}/web/test_openid_parts.py", f"{TESTS}/web/test_openid.py")
    return Mutation("things", f"{WEB}/{file}", text, replacement, breaks, tests)


def claim(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to give a group too much."""
    tests = ("tests/runtime/permissions/test_claims.py",)
    return Mutation("things", f"runtime/permissions/{file}", text, replacement, breaks, tests)


MUTATIONS = (
    thing(
        "what was there already is told again", "thing.py", "if self._notified.get(each.name) != packed:", "if True:"
    ),
    thing(
        "properties that are not observable are told",
        "thing.py",
        "            if each.is_observable:\n",
        "            if True:\n",
    ),
    thing(
        "a method that fails keeps its changes to itself",
        "thing.py",
        "            try:\n                return await function(self, *arguments, **keywords)\n            finally:\n"
        "                self.notify_changes()",
        "            result = await function(self, *arguments, **keywords)\n            return result",
    ),
    thing("a write is not checked", "affordances.py", "    setter.__annotations__[parameter] = read\n", "    pass\n"),
    thing("two types of one property pass", "affordances.py", "        if kind != written:", "        if False:"),
    thing(
        "data of any type is an event's", "thing.py", "            converted(event.kind, body)\n", "            pass\n"
    ),
    thing("a type that contains itself is written out for ever", "schemas.py", "if name in within:", "if False:"),
    thing(
        "an integer fits two alternatives",
        "schemas.py",
        'return [each for each in alternatives if each.get("type") != "integer"]',
        "return alternatives",
    ),
    thing("a value may match two kinds of numbers", "schemas.py", 'if {"type": "number"} not in numbers:', "if False:"),
    thing("keys that are no text pass", "schemas.py", "        if base is not str:", "        if False:"),
    thing(
        "a property that cannot be read ends the action",
        "thing.py",
        '                    self._notify("property", each.name, None, is_known=False)',
        "                    raise",
    ),
    thing("an unknown value counts as known", "thing.py", "None, is_known=False)", "None)"),
    thing("a spawned thing speaks for another", "thing.py", " and number_of(self) is None:", ":"),
    thing("a new gateway learns no values", "thing.py", "        self._notified.clear()\n", ""),
    thing(
        "methods of plain bases change things in silence",
        "thing.py",
        "    for base in cls.__mro__:",
        "    for base in (cls,):",
    ),
    thing("a default is of any type", "affordances.py", "        converted(kind, written)\n", ""),
    thing(
        "a setter has bounds of its own",
        "affordances.py",
        "        if has_bounds(own) and own !=",
        "        if False and own !=",
    ),
    thing("names may be paths", "declaring.py", " or not _NAME.fullmatch(name):", ":"),
    thing(
        "fields are taken for keywords",
        "schemas.py",
        '_INNER: Final = ("items", "additionalProperties", "oneOf")',
        '_INNER: Final = ("items", "additionalProperties", "oneOf", "properties")',
    ),
    web("a value outlives its process", "cache.py", "found is not None and found[0] == process", "found is not None"),
    web(
        "a place that has started again keeps its things",
        "catalogue.py",
        "place.is_up and place.generation == entry.generation",
        "place.is_up",
    ),
    web("replicas share one value", "catalogue.py", "is_replicated=is_replica", "is_replicated=False"),
    web(
        "a backplane that starts again loses its things",
        "catalogue.py",
        "if place[0] in directory.backplanes and newest[place[0]] == place",
        "if place in places",
    ),
    web(
        "a backplane that is silent is not asked again",
        "catalogue.py",
        "        return not self._silent",
        "        return True",
    ),
    web("a history has any number of bytes", "history.py", "(self._bytes > BYTES_MAX and len(entries) > 1)", "False"),
    web(
        "a history that is closed keeps its waiters",
        "history.py",
        "        self.is_closed = True\n        self.wake()",
        "        self.is_closed = True",
    ),
    web(
        "a value that is not known is kept",
        "cache.py",
        "        self._values.pop((id, name), None)\n",
        "        pass\n",
    ),
    web(
        "bytes in lists stay text", "parsing.py", '[from_json(each, schema["items"], where) for each in value]', "value"
    ),
    web(
        "two things with one id take turns",
        "catalogue.py",
        "                    continue\n",
        "                    pass\n",
    ),
    web("a loss is not told", "history.py", "return entries[0], first - number - 1", "return entries[0], 0"),
    web("ids of another process count", "history.py", "said == epoch and ", ""),
    web("an invocation is everybody's", "invocations.py", "and found.principal == principal", ""),
    web("all that run may be forgotten", "invocations.py", "if each.task.done()), None)", "), None)"),
    web(
        "the time to come back is rounded down",
        "problems.py",
        "math.ceil(error.retry_after)",
        "math.floor(error.retry_after)",
    ),
    web(
        "a page of another site is let in",
        "authentication.py",
        "(origin is not None and origin !=",
        "(False and origin !=",
    ),
    web("a rebound name is let in", "authentication.py", "    if name not in _LOCAL:", "    if False:"),
    web(
        "anybody is let in",
        "authentication.py",
        "        elif not scheme and self.is_anonymous:",
        "        elif not scheme:",
    ),
    sign_in("a token for another is ours", "id_tokens.py", "if settings.client_id not in audience:", "if False:"),
    sign_in(
        "azp is not looked at",
        "id_tokens.py",
        "if len(audience) == 1 else None) != settings",
        "if True else None) is False and settings",
    ),
    sign_in(
        "a token of another issuer counts", "id_tokens.py", 'if claims.get("iss") != settings.issuer:', "if False:"
    ),
    sign_in(
        "a nonce may be replayed", "id_tokens.py", 'if nonce is not None and claims.get("nonce") != nonce:', "if False:"
    ),
    sign_in("tokens do not expire", "id_tokens.py", "(value <= now_s - SKEW_S)", "False"),
    sign_in("keys for encryption sign", "id_tokens.py", ' or key.get("use", "sig") != "sig"', ""),
    sign_in("a logout signs in", "id_tokens.py", ' or "events" in claims', ""),
    sign_in("anybody's email counts", "id_tokens.py", 'claims.get("email_verified") is not True', "False"),
    sign_in("a user may be called local", "id_tokens.py", "if name in _RESERVED or", "if"),
    sign_in("a state counts twice", "sign_in_attempts.py", " or attempt.state in self._used", ""),
    sign_in(
        "a seal is not checked",
        "sign_in_attempts.py",
        "hmac.compare_digest(tag, _tag(body.encode(), self._key))",
        "True",
    ),
    sign_in("a sign-in leads elsewhere", "sign_in_attempts.py", ' and "//" not in path', ""),
    sign_in(
        "a session does not become idle",
        "credentials.py",
        "min(self.until_s, self.used_s + self.idle_s)",
        "self.until_s",
    ),
    sign_in(
        "a session never ends",
        "credentials.py",
        "min(self.until_s, self.used_s + self.idle_s)",
        "self.used_s + self.idle_s",
    ),
    sign_in("one user takes all sessions", "credentials.py", "len(of_user) >= OF_USER_MAX", "False"),
    sign_in(
        "a guesser locks good users out", "failed_attempts.py", "if digest and digest in self._right:", "if False:"
    ),
    sign_in(
        "a page of another site may send a form",
        "openid.py",
        "            self._expect_same_origin(request)\n",
        "            pass\n",
    ),
    sign_in("streams outlive their session", "openid.py", "                task.cancel()\n", "                pass\n"),
    sign_in(
        "userinfo of another user counts", "openid.py", 'if info and info.get("sub") != claims["sub"]:', "if False:"
    ),
    sign_in(
        "a second request overtakes the groups",
        "openid.py",
        "elif (task := self._tasks.get(found)) is not None:",
        "elif False and (task := self._tasks.get(found)):",
    ),
    sign_in(
        "a sign-out that is given up leaves its groups",
        "openid.py",
        "            await asyncio.shield(task)\n        except",
        "            await task\n        except",
    ),
    claim("a claimed group does not end", "table.py", "_ending(each, claimed.until)", "each"),
    claim("claims of others are lost", "claims.py", "if each.until > now_s and name != user", "if False"),
    claim("a claim that has ended is kept", "claims.py", "if each.until > now_s and name != user", "if name != user"),
    web("other hosts are listened to", "gateway.py", "    if not is_loopback:", "    if False:"),
)
