//! Each operation of the proxy, with both client and server under the control of the test.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::timeout;

use super::{BOTH, End, Proxy, Rule, Target, Trap, Way};
use crate::directory::Directory;

/// How long a stream must be silent to count as silent.
const SILENCE: Duration = Duration::from_millis(60);
/// How long expected bytes may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A proxy, and the server behind it.
struct Net {
    proxy: Proxy,
    server: TcpListener,
}

impl Net {
    async fn new() -> Net {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(Target::Tcp(server.local_addr().unwrap())).await.unwrap();
        Net { proxy, server }
    }

    /// Both ends of a new connection.
    async fn pair(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.proxy.address()).await.unwrap();
        let (server, _) = timeout(TIMEOUT, self.server.accept()).await.unwrap().unwrap();
        client.set_nodelay(true).unwrap();
        (client, server)
    }
}

async fn gets(stream: &mut (impl AsyncRead + Unpin), expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    timeout(TIMEOUT, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    assert_eq!(bytes, expected);
}

async fn gets_nothing(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(SILENCE, stream.read(&mut byte)).await;
    assert!(read.is_err(), "received {read:?}");
}

/// Returns all bytes before the end of the stream, and the kind of end.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, End) {
    let mut bytes = Vec::new();
    let end = match timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.unwrap() {
        Ok(_) => End::Close,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
        Err(error) => panic!("{error}"),
    };
    (bytes, end)
}

#[tokio::test]
async fn bytes_and_ends_pass_both_ways() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    client.write_all(b"ask").await.unwrap();
    gets(&mut server, b"ask").await;
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, (vec![], End::Close));
    server.write_all(b"answer").await.unwrap();
    drop(server);
    assert_eq!(rest(&mut client).await, (b"answer".to_vec(), End::Close));
}

#[tokio::test]
async fn a_reset_of_one_is_a_reset_for_the_other() {
    let net = Net::new().await;
    let (client, mut server) = net.pair().await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(rest(&mut server).await, (vec![], End::Reset));
}

#[tokio::test]
async fn the_socket_of_a_file_is_a_target() {
    let directory = Directory::make().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let proxy = Proxy::start(Target::Unix(path)).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"ask").await.unwrap();
    gets(&mut server, b"ask").await;
    server.write_all(b"answer").await.unwrap();
    gets(&mut client, b"answer").await;
    proxy.cut(End::Reset);
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(rest(&mut client).await, (vec![], End::Reset));
}

#[tokio::test]
async fn a_target_that_is_not_there_is_a_reset() {
    let net = Net::new().await;
    drop(net.server);
    let mut client = TcpStream::connect(net.proxy.address()).await.unwrap();
    assert_eq!(rest(&mut client).await, (vec![], End::Reset));
}

#[tokio::test]
async fn each_direction_has_a_delay_of_its_own_and_delays_do_not_add_up() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    let (there, back) = (Duration::from_secs(1), Duration::from_millis(100));
    net.proxy.all(Rule::Delay { to_server: there, to_client: back });

    let began = Instant::now();
    for _ in 0..5 {
        client.write_all(b"x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gets(&mut server, b"xxxxx").await;
    let took = began.elapsed();
    assert!(took >= there && took < 3 * there, "{took:?}");

    let began = Instant::now();
    server.write_all(b"y").await.unwrap();
    gets(&mut client, b"y").await;
    let took = began.elapsed();
    assert!(took >= back && took < there, "{took:?}");
}

#[tokio::test]
async fn a_stalled_direction_holds_everything_back_and_the_other_does_not() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    net.proxy.all(Rule::Stall(&[Way::ToServer]));
    client.write_all(b"ask").await.unwrap();
    server.write_all(b"answer").await.unwrap();
    gets(&mut client, b"answer").await;
    gets_nothing(&mut server).await;

    net.proxy.all(Rule::Stall(&[Way::ToClient]));
    gets(&mut server, b"ask").await;
    server.write_all(b"more").await.unwrap();
    gets_nothing(&mut client).await;

    net.proxy.all(Rule::Pass);
    gets(&mut client, b"more").await;
}

#[tokio::test]
async fn a_stall_hides_even_that_the_client_is_gone() {
    let net = Net::new().await;
    let (client, mut server) = net.pair().await;
    net.proxy.all(Rule::Stall(BOTH));
    client.set_zero_linger().unwrap();
    drop(client);
    gets_nothing(&mut server).await;
    net.proxy.all(Rule::Pass);
    assert_eq!(rest(&mut server).await, (vec![], End::Reset));
}

#[tokio::test]
async fn a_stall_can_be_for_new_connections_only() {
    let net = Net::new().await;
    let (mut old, mut old_server) = net.pair().await;
    net.proxy.coming(Rule::Stall(BOTH));
    let (mut new, mut new_server) = net.pair().await;
    old.write_all(b"old").await.unwrap();
    new.write_all(b"new").await.unwrap();
    gets(&mut old_server, b"old").await;
    gets_nothing(&mut new_server).await;
}

#[tokio::test]
async fn connections_are_cut_by_a_reset_or_closed() {
    let net = Net::new().await;
    for end in [End::Reset, End::Close] {
        let (mut client, mut server) = net.pair().await;
        net.proxy.all(Rule::Stall(BOTH));
        net.proxy.cut(end);
        assert_eq!(rest(&mut client).await, (vec![], end));
        assert_eq!(rest(&mut server).await, (vec![], end));
        net.proxy.all(Rule::Pass);
        // The next connection is not affected.
        let (mut client, mut server) = net.pair().await;
        client.write_all(b"ask").await.unwrap();
        gets(&mut server, b"ask").await;
    }
}

#[tokio::test]
async fn a_connection_is_cut_in_the_middle_of_a_message() {
    let net = Net::new().await;
    for end in [End::Reset, End::Close] {
        let (mut client, mut server) = net.pair().await;
        net.proxy.all(Rule::CutAfter { way: Way::ToServer, bytes: 7, end });
        client.write_all(b"four").await.unwrap();
        gets(&mut server, b"four").await;
        // The other direction is not counted.
        server.write_all(b"an answer").await.unwrap();
        gets(&mut client, b"an answer").await;
        client.write_all(b"and more").await.unwrap();
        assert_eq!(rest(&mut server).await, (b"and".to_vec(), end));
        assert_eq!(rest(&mut client).await, (vec![], end));

        let (mut client, mut server) = net.pair().await;
        net.proxy.all(Rule::CutAfter { way: Way::ToClient, bytes: 2, end });
        client.write_all(b"ask").await.unwrap();
        gets(&mut server, b"ask").await;
        server.write_all(b"answer").await.unwrap();
        assert_eq!(rest(&mut client).await, (b"an".to_vec(), end));
    }
}

#[tokio::test]
async fn one_direction_ends_and_the_other_goes_on() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    net.proxy.close(Way::ToServer);
    assert_eq!(rest(&mut server).await, (vec![], End::Close));
    server.write_all(b"still").await.unwrap();
    gets(&mut client, b"still").await;
    client.write_all(b"to absent").await.unwrap();
    server.write_all(b"there").await.unwrap();
    gets(&mut client, b"there").await;

    let (mut client, mut server) = net.pair().await;
    net.proxy.all(Rule::Stall(BOTH));
    net.proxy.close(Way::ToClient);
    assert_eq!(rest(&mut client).await, (vec![], End::Close));
    net.proxy.all(Rule::Pass);
    client.write_all(b"still").await.unwrap();
    gets(&mut server, b"still").await;
}

#[tokio::test]
async fn new_connections_are_refused_and_old_ones_go_on() {
    let mut net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    net.proxy.refuse().await;
    let refused = TcpStream::connect(net.proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"ask").await.unwrap();
    gets(&mut server, b"ask").await;
    net.proxy.accept().unwrap();
    let (mut client, mut server) = net.pair().await;
    client.write_all(b"ask").await.unwrap();
    gets(&mut server, b"ask").await;
    assert_eq!(net.proxy.connections(), 2);
}

#[tokio::test]
async fn the_message_arrives_and_its_answer_does_not() {
    let net = Net::new().await;
    for end in [End::Reset, End::Close] {
        let (mut client, mut server) = net.pair().await;
        let (mut other, mut other_server) = net.pair().await;
        let trap = Trap::answer("COMMIT", end);
        net.proxy.all(Rule::Trap(trap.clone()));
        client.write_all(b"INSERT").await.unwrap();
        gets(&mut server, b"INSERT").await;
        server.write_all(b"inserted").await.unwrap();
        gets(&mut client, b"inserted").await;

        client.write_all(b"Q COMMIT;").await.unwrap();
        gets(&mut server, b"Q COMMIT;").await;
        server.write_all(b"committed").await.unwrap();
        timeout(TIMEOUT, trap.sprung()).await.unwrap();
        assert_eq!(rest(&mut client).await, (vec![], end));
        assert_eq!(rest(&mut server).await, (vec![], End::Close));

        // The trap applied only to the first match.
        other.write_all(b"COMMIT").await.unwrap();
        gets(&mut other_server, b"COMMIT").await;
        other_server.write_all(b"committed").await.unwrap();
        gets(&mut other, b"committed").await;
    }
}

#[tokio::test]
async fn a_message_that_comes_in_pieces_arrives_whole() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    let trap = Trap::answer("COMMIT", End::Reset);
    net.proxy.all(Rule::Trap(trap.clone()));
    client.write_all(b"COM").await.unwrap();
    gets(&mut server, b"COM").await;
    let mut sent = b"MIT".to_vec();
    sent.resize(1 << 20, b'x');
    let read = tokio::spawn(async move { rest(&mut server).await });
    client.write_all(&sent).await.unwrap();
    timeout(TIMEOUT, trap.sprung()).await.unwrap();
    let (received, end) = read.await.unwrap();
    assert_eq!((received.len(), end), (sent.len(), End::Close));
    assert_eq!(rest(&mut client).await, (vec![], End::Reset));
}

#[tokio::test]
async fn the_message_does_not_arrive() {
    let net = Net::new().await;
    for (end, pieces) in [(End::Reset, &["begin COMMIT"][..]), (End::Close, &["begin COM", "MIT"])]
    {
        let (mut client, mut server) = net.pair().await;
        let trap = Trap::message("COMMIT", end);
        net.proxy.all(Rule::Trap(trap.clone()));
        let mut came = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            client.write_all(piece.as_bytes()).await.unwrap();
            if number + 1 < pieces.len() {
                gets(&mut server, piece.as_bytes()).await;
                came.extend_from_slice(piece.as_bytes());
            }
        }
        timeout(TIMEOUT, trap.sprung()).await.unwrap();
        let (last, server_end) = rest(&mut server).await;
        came.extend(last);
        assert!(came.starts_with(b"begin ") && !came.ends_with(b"COMMIT"), "{came:?}");
        assert_eq!(server_end, End::Close);
        assert_eq!(rest(&mut client).await, (vec![], end));
    }
}

#[tokio::test]
async fn dropped_it_closes_its_connections() {
    let net = Net::new().await;
    let (mut client, mut server) = net.pair().await;
    drop(net.proxy);
    assert_eq!(rest(&mut client).await, (vec![], End::Close));
    assert_eq!(rest(&mut server).await, (vec![], End::Close));
}
