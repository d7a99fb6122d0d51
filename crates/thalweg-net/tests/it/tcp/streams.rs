//! Proves that streams and messages arrive whole and independently, by rank, and are freed when
//! given up.

use std::collections::BTreeMap;

use thalweg_link::hop::{BodyError, CloseCode, DownCause, StreamCode};
use thalweg_link::tcp_mux::settings::STREAM_WINDOW_BYTES;

use super::proxy::{Proxy, Way};
use super::*;

#[tokio::test]
async fn many_streams_interleave() {
    for by in By::ALL {
        let mut pair = pair(by).await;
        let sizes: Vec<usize> = (0..60).map(|n| n * n * 40).collect();
        for connection in [&pair.a, &pair.b] {
            for (n, size) in sizes.iter().copied().enumerate() {
                let (connection, rank) = (connection.clone(), i32::from(n % 7 == 0));
                let stream = connection.open(rank).expect("the peer admits it");
                tokio::spawn(async move {
                    write_all(&connection, stream, pattern(n, size)).await;
                });
            }
        }
        for connection in [&pair.a, &pair.b] {
            for _ in &sizes {
                let stream = bounded(connection.accept())
                    .await
                    .expect("the session lives");
                let number = stream.number().0 as usize;
                let bytes = bounded(stream.collect(1 << 20))
                    .await
                    .expect("it is finished");
                assert_eq!(bytes, pattern(number, sizes[number]));
            }
        }
        acknowledged(&mut pair.events, sizes.len()).await;
    }
}

#[tokio::test]
async fn urgent_stream_overtakes_bulk() {
    for by in By::ALL {
        let pair = pair_through(by, async |address| {
            Proxy::start(address, Way::Slow(2_000)).address
        })
        .await;
        let (connection, bulk_bytes) = (pair.a.clone(), 3_000_000);
        let bulk = connection.open(0).expect("the peer admits it");
        let writer = connection.clone();
        tokio::spawn(async move { write_all(&writer, bulk, pattern(1, bulk_bytes)).await });
        let mut arriving = bounded(pair.b.accept()).await.expect("the session lives");
        let mut before = 0;
        while before < 200_000 {
            let chunk = bounded(arriving.chunk()).await.expect("it goes on");
            before += chunk.expect("there is more").len();
        }
        let urgent = connection.open(1).expect("the peer admits it");
        write_all(&connection, urgent, pattern(2, 20_000)).await;
        let stream = bounded(pair.b.accept()).await.expect("the session lives");
        assert_eq!(stream.number(), urgent);
        let bytes = bounded(stream.collect(1 << 20))
            .await
            .expect("it is finished");
        assert_eq!(bytes, pattern(2, 20_000));
        // Bulk bytes here by now had left before, or were in the line's own buffers.
        let mut between = 0;
        while let Ok(Ok(Some(chunk))) =
            tokio::time::timeout(std::time::Duration::ZERO, arriving.chunk()).await
        {
            between += chunk.len();
        }
        assert!(before + between < bulk_bytes / 2, "{by:?}: {between}");
    }
}

#[tokio::test]
async fn reset_reaches_reader() {
    for by in By::KERNEL {
        let pair = pair(by).await;
        for round in 0..20 {
            let stream = pair.a.open(0).expect("the peer admits it");
            let mut bytes = pattern(round, 60_000);
            pair.a.write(stream, &mut bytes);
            let mut arriving = bounded(pair.b.accept()).await.expect("the session lives");
            bounded(arriving.chunk()).await.expect("it begins");
            pair.a.reset(stream, StreamCode::Expired);
            let end = loop {
                match bounded(arriving.chunk()).await {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert_eq!(end, Err(BodyError::Reset(StreamCode::Expired)));
        }
    }
}

#[tokio::test]
async fn unread_stream_stalls_no_other() {
    for by in By::KERNEL {
        let mut pair = pair(by).await;
        let size = 3 * STREAM_WINDOW_BYTES as usize;
        for rank in [9, 0] {
            let stream = pair.a.open(rank).expect("the peer admits it");
            let connection = pair.a.clone();
            tokio::spawn(async move { write_all(&connection, stream, pattern(1, size)).await });
        }
        let unread = bounded(pair.b.accept()).await.expect("the session lives");
        let read = bounded(pair.b.accept()).await.expect("the session lives");
        let bytes = bounded(read.collect(size)).await.expect("it is finished");
        assert_eq!(bytes, pattern(1, size));
        acknowledged(&mut pair.events, 1).await;
        let bytes = bounded(unread.collect(size)).await.expect("it is finished");
        assert_eq!(bytes, pattern(1, size));
    }
}

#[tokio::test]
async fn stop_code_reaches_writer() {
    for by in By::KERNEL {
        let mut pair = pair(by).await;
        let stream = pair.a.open(0).expect("the peer admits it");
        pair.a.write(stream, &mut pattern(1, 10_000));
        let arriving = bounded(pair.b.accept()).await.expect("the session lives");
        arriving.stop(StreamCode::UnknownStream);
        loop {
            let event = bounded(pair.events.next())
                .await
                .expect("the session lives");
            if event == Event::Stopped(stream, StreamCode::UnknownStream) {
                break;
            }
        }
        let written = pair.a.write(stream, &mut pattern(1, 1));
        assert_eq!(written, Written::Stopped(StreamCode::UnknownStream));
    }
}

#[tokio::test]
async fn datagrams_arrive_in_order() {
    for by in By::ALL {
        let pair = pair(by).await;
        for n in 0..50 {
            pair.a
                .send_datagram(pattern(n, 1_000))
                .expect("there is room");
        }
        for n in 0..50 {
            assert_eq!(bounded(pair.b.datagram()).await, Some(pattern(n, 1_000)));
        }
    }
}

#[tokio::test]
async fn credit_returns_to_sender() {
    for by in By::ALL {
        let mut pair = pair(by).await;
        let stream = pair.a.open(0).expect("the peer admits it");
        // Kept until the end: dropping it ends the session.
        let b = pair.b.clone();
        let reader = tokio::spawn(async move {
            let arriving = b.accept().await.expect("the session lives");
            arriving.collect(1 << 23).await
        });
        let mut left = pattern(1, 2_000_000);
        let mut given = BTreeMap::new();
        while !left.is_empty() {
            let credit = pair.a.credit().as_bytes() as usize;
            if credit < 1_200 {
                bounded(pair.events.next())
                    .await
                    .expect("the session lives");
                continue;
            }
            let mut piece = left.split_to(credit.min(left.len()).min(30_000));
            *given.entry(piece.len()).or_insert(0) += 1;
            write_piece(&pair.a, stream, &mut piece).await;
        }
        pair.a.finish(stream);
        let bytes = bounded(reader).await.expect("it does not panic");
        assert_eq!(bytes.expect("it is finished"), pattern(1, 2_000_000));
        assert!(pair.a.path_rate().sendable.is_some(), "{by:?}");
    }
}

async fn write_piece(connection: &Connection, stream: StreamNumber, piece: &mut Bytes) {
    while connection.write(stream, piece) != Written::All {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn end_reason_reaches_both() {
    for by in By::KERNEL {
        let pair = pair(by).await;
        pair.a.close(CloseCode::Shutdown, "enough");
        assert_eq!(bounded(pair.a.closed()).await, DownCause::ByUs);
        let expected = DownCause::ByPeer {
            code: CloseCode::Shutdown,
            reason: "enough".into(),
        };
        assert_eq!(bounded(pair.b.closed()).await, expected);
        assert!(bounded(pair.b.accept()).await.is_none());
        assert!(bounded(pair.b.datagram()).await.is_none());
    }
}
