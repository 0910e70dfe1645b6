"""Sign-in by OpenID: the decisions. Forged, expired and misdirected tokens, replayed states, and the bounds of all tables."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.warnings import InsecureKeyLengthWarning

from appbackplane.runtime.permissions.table import ClaimedGroups
from appbackplane.runtime.things.web import credentials as credentials_module
from appbackplane.runtime.things.web import failed_attempts, sign_in_attempts
from appbackplane.runtime.things.web.credentials import IDLE_S, OF_USER_MAX, SESSION_S, Credentials
from appbackplane.runtime.things.web.failed_attempts import FAILURES_MAX, REFILL_S, FailedAttempts
from appbackplane.runtime.things.web.gateway import Gateway
from appbackplane.runtime.things.web.id_tokens import (
    GROUPS_MAX,
    SKEW_S,
    OpenIdUser,
    ProviderKeys,
    TokenRejected,
    UnknownKey,
    checked_claims,
    user_of,
)
from appbackplane.runtime.things.web.openid_settings import OpenIdSettings, openid_settings
from appbackplane.runtime.things.web.sign_in_attempts import (
    ATTEMPT_S,
    SignInAttempt,
    SignInAttempts,
    is_own_path,
    sealed,
)
from appbackplane.transport.errors import Unavailable
from tests.openid_server import CLIENT, RSA_KEY, public, signed

ISSUER = "https://id.example"
NOW = 1_000_000.0
SETTINGS = OpenIdSettings(issuer=ISSUER, client_id=CLIENT)
KEYS = ProviderKeys(public("rsa", "ec", "ed"))
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "ada", "iat": NOW, "exp": NOW + 300, "nonce": "n", "groups": ["b", "a", "a"],
}  # fmt: skip


def accepted(token: str, *, nonce: str | None = "n", keys: ProviderKeys = KEYS, now: float = NOW) -> OpenIdUser:
    """The user of a token."""
    return user_of(checked_claims(token, keys, SETTINGS, now, nonce=nonce), SETTINGS)


def claims(**changes: Any) -> dict[str, Any]:
    """Valid claims with changes; None: without the claim."""
    return {name: value for name, value in (CLAIMS | changes).items() if value is not None}


def unsigned(header: dict[str, Any], body: dict[str, Any], tag: bytes = b"") -> str:
    """A token that PyJWT would not make."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, body)]
    return b".".join([*parts, base64.urlsafe_b64encode(tag).rstrip(b"=")]).decode()


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
def test_a_signed_token_names_its_user_and_groups(kid: str) -> None:
    """With each algorithm; groups are a set."""
    assert accepted(signed(CLAIMS, kid)) == OpenIdUser("ada", ("a", "b"), NOW, NOW + 300 + SKEW_S)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://id.example/"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": []},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"exp": NOW - SKEW_S},
        {"exp": None},
        {"exp": float("inf")},
        {"exp": "never"},
        {"exp": True},
        {"iat": None},
        {"iat": NOW + SKEW_S + 1},
        {"nbf": NOW + SKEW_S + 1},
        {"nonce": "other"},
        {"nonce": None},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
        {"groups": {"family": True}},
        {"groups": [1]},
        {"groups": [str(number) for number in range(GROUPS_MAX + 1)]},
        {"groups": ["x" * 201]},
        {"groups": [""]},
        {"groups": ["\ud800"]},
    ],
)
def test_a_token_with_wrong_claims_is_refused(changes: dict[str, Any]) -> None:
    """Though its signature is right."""
    with pytest.raises(TokenRejected):
        accepted(signed(claims(**changes)))


def test_a_token_for_several_is_ours_if_it_was_made_for_us() -> None:
    """The claim azp says so."""
    assert accepted(signed(claims(aud=["other", CLIENT], azp=CLIENT))).principal == "ada"
    assert accepted(signed(claims(exp=NOW - SKEW_S + 1))).principal == "ada", "clocks differ"


def test_forged_signatures_are_refused() -> None:
    """Without a signature, by a key of somebody else, by another key of the provider, or changed afterwards."""
    good = signed(CLAIMS)
    head, _, tag = good.split(".")
    changed = base64.urlsafe_b64encode(json.dumps(claims(sub="eve")).encode()).rstrip(b"=").decode()
    for token in (
        f"{head}.{changed}.{tag}",
        f"{good[:-8]}AAAAAAAA",
        unsigned({"alg": "none", "kid": "rsa"}, CLAIMS),
        unsigned({"alg": "None", "kid": "rsa"}, CLAIMS),
        unsigned({"kid": "rsa"}, CLAIMS),
        signed(CLAIMS, "rsa-2", kid="rsa"),
        signed(CLAIMS, "ec", kid="rsa"),
        signed(CLAIMS, "rsa", crit=["exp"]),
        f"{head}..{tag}",
        "ey.ey.ey",
        "",
        "." * 9,
        good + "x" * 20_000,
        "é." + good,
    ):
        with pytest.raises(TokenRejected):
            accepted(token)


def test_a_public_key_is_no_shared_secret() -> None:
    """An attacker who signs with HS256 by the public key, as PEM or as JSON, is refused (RFC 8725, section 2.1)."""
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, json.dumps(public("rsa")[0]).encode()):
        head = {"alg": "HS256", "kid": "rsa"}
        signing_input = unsigned(head, CLAIMS).rpartition(".")[0]
        tag = hmac.new(secret, signing_input.encode(), hashlib.sha256).digest()
        with pytest.raises(TokenRejected):
            accepted(unsigned(head, CLAIMS, tag))
    assert ProviderKeys([{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}])._keys == []


def test_a_key_that_is_unknown_may_be_new() -> None:
    """Then the provider is asked again; for other errors it is not."""
    with pytest.raises(UnknownKey):
        accepted(signed(CLAIMS, "rsa-2"))
    with pytest.raises(TokenRejected) as caught:
        accepted(signed(CLAIMS, "ec", kid="rsa"))
    assert not isinstance(caught.value, UnknownKey)


def test_without_a_key_id_there_is_one_key_or_none() -> None:
    """To try all keys would make any of them good for all."""
    token = signed(CLAIMS, "rsa", kid=None)
    assert accepted(token, keys=ProviderKeys(public("rsa", "ec"))).principal == "ada"
    with pytest.raises(TokenRejected):
        accepted(token, keys=ProviderKeys(public("rsa", "rsa-2")))


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"alg": "PS256"},
        {"kty": "EC"},
        {"n": "AQAB"},
        {"n": None},
        {"kty": None},
        {"crv": []},
    ],
)
def test_keys_that_do_not_sign_are_left_out(changes: dict[str, Any]) -> None:
    """Of another purpose, of another algorithm, or malformed; the others go on."""
    keys = ProviderKeys([public("rsa")[0] | changes, 7, *public("ec")])
    with pytest.raises(TokenRejected):
        accepted(signed(CLAIMS), keys=keys)
    assert accepted(signed(CLAIMS, "ec"), keys=keys).principal == "ada"


def test_short_keys_and_algorithms_that_are_not_advertised_are_refused() -> None:
    """A key of 1,024 bits can be broken."""
    short = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    numbers = short.public_key().public_numbers()
    n = base64.urlsafe_b64encode(numbers.n.to_bytes(128, "big")).rstrip(b"=").decode()
    with pytest.warns(InsecureKeyLengthWarning):
        token = jwt.encode(CLAIMS, short, "RS256", headers={"kid": "short"})
    with pytest.raises(TokenRejected):
        accepted(token, keys=ProviderKeys([{"kty": "RSA", "n": n, "e": "AQAB", "kid": "short"}]))
    with pytest.raises(TokenRejected):
        accepted(signed(CLAIMS, "ec"), keys=ProviderKeys(public("rsa", "ec"), ["RS256"]))


def test_a_bearer_token_may_be_an_access_token_and_a_sign_in_may_not() -> None:
    """RFC 9068 gives it a type of its own; other types, such as that of a logout, sign nobody in."""
    token = signed(claims(nonce=None), typ="at+jwt")
    assert accepted(token, nonce=None).principal == "ada"
    for kind, nonce in (("at+jwt", "n"), ("logout+jwt", None), ("logout+jwt", "n")):
        with pytest.raises(TokenRejected):
            accepted(signed(CLAIMS, typ=kind), nonce=nonce)


@pytest.mark.parametrize(
    ("claim", "said", "name"),
    [
        ("sub", {"sub": "auth0|7"}, "auth0|7"),
        ("email", {"email": "ada@x.example", "email_verified": True}, "ada@x.example"),
        ("email", {"email": "ada@x.example"}, None),
        ("email", {"email": "ada@x.example", "email_verified": "true"}, None),
        ("preferred_username", {"preferred_username": "Ada"}, "Ada"),
        ("preferred_username", {}, None),
        ("preferred_username", {"preferred_username": "local"}, None),
        ("preferred_username", {"preferred_username": "anonymous"}, None),
        ("preferred_username", {"preferred_username": "link:7"}, None),
        ("preferred_username", {"preferred_username": "node:a/b"}, None),
        ("preferred_username", {"preferred_username": "group:family"}, None),
        ("preferred_username", {"preferred_username": " ada"}, None),
        ("preferred_username", {"preferred_username": "ada\n"}, None),
        ("preferred_username", {"preferred_username": "x" * 201}, None),
        ("preferred_username", {"preferred_username": ["ada"]}, None),
    ],
)
def test_the_principal_is_the_claim_and_nobody_elses_name(claim: Any, said: dict[str, Any], name: str | None) -> None:
    """A provider whose users choose their names must not make one of them an operator of this host."""
    settings = OpenIdSettings(issuer=ISSUER, client_id=CLIENT, user_claim=claim, groups_claim="")
    if name is None:
        with pytest.raises(TokenRejected):
            user_of(CLAIMS | said, settings)
    else:
        user = user_of(CLAIMS | said, settings)
        assert (user.principal, user.groups) == (name, ())


def test_one_group_may_be_a_text() -> None:
    """Some providers write it so."""
    assert user_of(claims(groups="family"), SETTINGS).groups == ("family",)


# -- attempts ---------------------------------------------------------------------------------------------------------

ATTEMPT = SignInAttempt("state", "nonce", "verifier", "/things", "http://localhost/sign-in/callback", NOW + ATTEMPT_S)
KEY = b"k" * 32


def test_a_sign_in_is_finished_once_in_the_browser_that_began_it() -> None:
    """A state that is replayed, expired, of another browser or of another process opens nothing."""
    cookie = sealed(ATTEMPT, KEY)
    attempts = SignInAttempts(KEY)
    assert attempts.open(cookie, "other", NOW) is None, "its state is another one"
    assert attempts.open("", "state", NOW) is None
    assert attempts.open("x.y", "state", NOW) is None and attempts.open("é", "é", NOW) is None
    assert attempts.open(sealed(ATTEMPT, b"other"), "state", NOW) is None
    body, _, tag = cookie.partition(".")
    assert attempts.open(f"{body[:-4]}AAAA.{tag}", "state", NOW) is None
    assert attempts.open(cookie, "state", NOW + ATTEMPT_S) is None
    assert attempts.open(cookie, "state", NOW) == ATTEMPT
    assert attempts.open(cookie, "state", NOW) is None, "it has been used"


def test_used_states_are_bounded_and_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full means refuse: a state that was forgotten could be used again."""
    monkeypatch.setattr(sign_in_attempts, "USED_MAX", 3)
    attempts = SignInAttempts(KEY)

    def opened(number: int, now: float) -> bool:
        attempt = SignInAttempt(f"s{number}", "n", "v", "/", "r", now + ATTEMPT_S)
        return attempts.open(sealed(attempt, KEY), f"s{number}", now) is not None

    assert [opened(number, NOW) for number in range(4)] == [True, True, True, False]
    assert opened(4, NOW + ATTEMPT_S)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/", True),
        ("/things?offset=0&limit=5", True),
        ("/things/urn:a%2Fb#top", True),
        ("", False),
        ("things", False),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("\\\\evil.example", False),
        ("/.//evil.example", False),
        ("/a/..//evil.example", False),
        ("https://evil.example", False),
        ("javascript:alert(1)", False),
        ("/\t/evil.example", False),
        ("/\n/evil.example", False),
        ("/x\r\nSet-Cookie: a=b", False),
        ("/é", False),
        ("/" + "x" * 2_001, False),
    ],
)
def test_a_sign_in_ends_at_this_gateway(path: str, is_own: bool) -> None:
    """An address that leads elsewhere would lend our name to a forged page."""
    assert is_own_path(path) == is_own


# -- credentials ------------------------------------------------------------------------------------------------------


def user(name: str = "ada", *groups: str, issued: float = NOW, until: float = NOW + 300) -> OpenIdUser:
    """Somebody."""
    return OpenIdUser(name, groups, issued, until)


def test_a_session_ends_when_it_is_idle_and_in_any_case() -> None:
    """Use lengthens it up to its end."""
    table = Credentials()
    table.add_session("a", user(), NOW)
    assert table.find("a", NOW + IDLE_S - 1) is not None
    assert table.find("a", NOW + IDLE_S + 1) is not None, "it was used"
    assert table.find("a", NOW + 3 * IDLE_S) is None and table.find("b", NOW) is None
    table.add_session("b", user(), NOW)
    now = NOW
    while now < NOW + SESSION_S:
        assert table.find("b", now) is not None
        now += IDLE_S / 2
    assert table.find("b", now) is None
    assert {each.digest for each in table.end_expired(now)} == {"a", "b"} and table.claims_of("ada") is None


def test_a_token_is_known_until_it_expires() -> None:
    """However often it is used."""
    table = Credentials()
    table.add_token("t", user(until=NOW + 5), NOW)
    assert table.find("t", NOW + 4.9) is not None and table.find("t", NOW + 5) is None


def test_nobody_uses_up_the_sessions_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the same user that was used longest ago ends; when all are in use, others are refused."""
    monkeypatch.setattr(credentials_module, "CREDENTIALS_MAX", OF_USER_MAX + 1)
    table = Credentials()
    for number in range(OF_USER_MAX):
        assert table.add_session(str(number), user(), NOW + number)[1] == []
    assert table.find("0", NOW + 100) is not None
    _, ended = table.add_session("new", user(), NOW + 101)
    assert [each.digest for each in ended] == ["1"] and ended[0].is_ended and table.find("1", NOW + 101) is None
    table.add_session("ben", user("ben"), NOW)
    with pytest.raises(Unavailable):
        table.add_session("cid", user("cid"), NOW + 102)
    table.end_expired(NOW + SESSION_S + 200)
    table.add_session("cid", user("cid"), NOW + SESSION_S + 200)
    assert table.find("ben", NOW) is None


def test_the_groups_of_a_user_are_those_of_the_newest_credential() -> None:
    """When it ends, those of the one before hold again."""
    table = Credentials()
    table.add_session("a", user("ada", "old"), NOW)
    assert table.claims_of("ada", "gateway") == ClaimedGroups(("old",), NOW + SESSION_S, "gateway")
    table.add_token("t", user("ada", "new", issued=NOW + 1, until=NOW + 9), NOW + 1)
    assert table.claims_of("ada") == ClaimedGroups(("new",), NOW + 9)
    table.end_expired(NOW + 9)
    assert table.claims_of("ada") == ClaimedGroups(("old",), NOW + SESSION_S)
    table.add_session("b", user("ada", issued=NOW + 2), NOW + 10)
    assert table.claims_of("ada") is None and table.claims_of("ben") is None


# -- failed attempts --------------------------------------------------------------------------------------------------


def test_an_address_that_guesses_is_slowed_down_and_its_good_users_are_not() -> None:
    """Otherwise an attacker behind the same router could lock a family out of its house."""
    attempts = FailedAttempts()
    attempts.was_right("ada's")
    for _ in range(FAILURES_MAX):
        assert attempts.wait_s("192.0.2.1", NOW) == 0.0
        attempts.failed("192.0.2.1", NOW)
    assert attempts.wait_s("192.0.2.1", NOW) == REFILL_S
    assert attempts.wait_s("192.0.2.1", NOW, "guess") == REFILL_S
    assert attempts.wait_s("192.0.2.1", NOW, "ada's") == 0.0
    assert attempts.wait_s("192.0.2.2", NOW) == 0.0
    for _ in range(1_000):
        attempts.failed("192.0.2.1", NOW)
    assert attempts.wait_s("192.0.2.1", NOW) == REFILL_S, "a longer attack is no longer penalty"
    assert attempts.wait_s("192.0.2.1", NOW + REFILL_S) == 0.0
    assert attempts.wait_s("192.0.2.1", NOW - 1e6) <= REFILL_S, "a clock may be set back"


def test_one_host_has_one_bucket_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of IPv6 has 2^64 of them. And the table is bounded."""
    attempts = FailedAttempts()
    for number in range(FAILURES_MAX):
        attempts.failed(f"2001:db8::{number:x}", NOW)
    assert attempts.wait_s("2001:db8::ffff", NOW) > 0.0 and attempts.wait_s("2001:db8:0:1::1", NOW) == 0.0
    monkeypatch.setattr(failed_attempts, "ADDRESSES_MAX", 2)
    monkeypatch.setattr(failed_attempts, "RIGHT_MAX", 2)
    for number in range(9):
        attempts.failed(f"192.0.2.{number}", NOW)
        attempts.was_right(str(number))
    assert len(attempts._full_at_s) == 2 and len(attempts._right) == 2


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "openid: Object missing required field `issuer`"),
        ({"issuer": ISSUER}, "openid: Object missing required field `client_id`"),
        ({"issuer": ISSUER, "client_id": "x", "secret": "y"}, "openid: Object contains unknown field `secret`"),
        ({"issuer": ISSUER, "client_id": "x", "user_claim": "name"}, "openid: Invalid enum value 'name'"),
        (
            {"issuer": "id.example", "client_id": "x"},
            "openid.issuer = 'id.example': expected an address such as https:",
        ),
        ({"issuer": "http://id.example", "client_id": "x"}, "http is for this host alone"),
        ({"issuer": "https://a@id.example", "client_id": "x"}, "openid.issuer"),
        ({"issuer": "https://id.example?x=1", "client_id": "x"}, "openid.issuer"),
        ({"issuer": "https://[", "client_id": "x"}, "openid.issuer"),
        (
            {"issuer": ISSUER, "client_id": "x", "scopes": ["email"]},
            'openid.scopes: expected single words, "openid" among them',
        ),
        (
            {"issuer": ISSUER, "client_id": "x", "client_secret_env": "NOT_SET"},
            "no environment variable 'NOT_SET': set it",
        ),
    ],
)
def test_bad_settings_are_refused_with_the_remedy(given: dict[str, Any], words: str) -> None:
    """When the backplane starts, not at the first sign-in."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace("[", r"\[")):
        Gateway(openid=given)


def test_the_secret_comes_from_the_environment() -> None:
    """A file of settings is read by many. A public client has none, and a provider on this host needs no TLS."""
    given = {"issuer": ISSUER, "client_id": "x", "client_secret_env": "S"}
    assert openid_settings(given, {"S": "secret"})[1] == "secret"
    assert openid_settings({"issuer": "http://127.0.0.1:9/x", "client_id": "x"}, {})[1] == ""
