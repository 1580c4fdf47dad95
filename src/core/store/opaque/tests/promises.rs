//! `validate` names what is wrong with a state that was spoilt on purpose, and nothing of one that
//! was not.

use super::*;
use crate::store::opaque::OrderedMove;

/// Something that no rule leads to.
type Spoil = fn(&mut Opaque);

/// A server with a key of which the application has a request.
fn busy() -> Opaque {
    let mut server = server(8, false);
    given(&serve(&mut server, NOW, push(9, 1)));
    server
}

fn owned(server: &mut Opaque) -> &mut Owned {
    server.keys.get_mut(&KEY).unwrap()
}

#[test]
fn what_is_wrong_is_named() {
    let all: [(Spoil, &str); 12] = [
        (|server| owned(server).open = 2, "the application has 1 requests of key 7, not 2"),
        (|server| server.given.clear(), "the application has 0 requests of key 7, not 1"),
        (|server| drop(server.keys.remove(&KEY)), "requests of keys that are not here: {7: 1}"),
        (
            |server| _ = server.arriving.insert(KEY, Owned::default()),
            "of [here, leaving, arriving] it is [true, false, true]",
        ),
        (|server| _ = server.ordered.insert(KEY), "it has an order: false"),
        (
            |server| owned(server).order = Some(OrderedMove { to: 10, since: NOW }),
            "it has an order: true",
        ),
        (|server| owned(server).term = 0, "it has no term"),
        (|server| owned(server).source = Some(8), "it came from 8, where it is"),
        (
            |server| server.servers.collecting = Some(1),
            "policy Some(1) is expected, and policy 1 is known",
        ),
        (
            |server| assert!(server.held.push(KEY, &push(9, 2), &[])),
            "request Some((9, 2)) is held, and the key is not to leave",
        ),
        (
            |server| assert!(server.parked.push(KEY, &push(9, 2), &[])),
            "request 2 of 9 is parked, and nothing keeps it",
        ),
        (|server| _ = server.routes.insert(KEY, requests::route(1 << 40, 10)), "elsewhere since"),
    ];
    for (spoil, text) in all {
        let mut server = busy();
        assert_eq!(server.validate(), Ok(()));
        spoil(&mut server);
        let found = server.validate().expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}

/// What leaves is quiet, and goes to somebody else.
#[test]
fn what_is_wrong_with_what_left_is_named() {
    let all: [(Spoil, &str); 2] = [
        (|server| server.leaving.get_mut(&KEY).unwrap().owned.open = 1, "it left while 1 requests"),
        (|server| server.leaving.get_mut(&KEY).unwrap().to = 8, "it left for 8, where it is"),
    ];
    for (spoil, text) in all {
        let mut server = server(8, false);
        answered(&mut server, push(9, 1));
        order(&mut server, NOW, 10);
        export(&mut server, Ok(Bytes::new()));
        assert_eq!((server.leaving.len(), server.validate()), (1, Ok(())));
        spoil(&mut server);
        let found = server.validate().expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}
