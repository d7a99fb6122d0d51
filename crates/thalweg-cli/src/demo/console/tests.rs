//! Proves that only this machine's own pages are served, and that the page needs no other resources.

use super::*;

fn headers(origin: Option<&str>, host: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, host.parse().expect("a header"));
    if let Some(origin) = origin {
        headers.insert(header::ORIGIN, origin.parse().expect("a header"));
    }
    headers
}

#[test]
fn other_origins_are_refused() {
    let own = "127.0.0.1:7480";
    assert!(same_origin(&headers(Some("http://127.0.0.1:7480"), own)));
    assert!(same_origin(&headers(None, own)));
    assert!(!same_origin(&headers(Some("http://example.org"), own)));
    let rebound = headers(Some("http://example.org:7480"), "example.org:7480");
    assert!(!same_origin(&rebound));
}

#[test]
fn page_is_self_contained() {
    for (path, _, content) in FILES {
        let inside = content.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !inside.contains("http://") && !inside.contains("https://"),
            "{path}"
        );
        for import in content.split("from \"./").skip(1) {
            let file = format!("/{}", import.split('"').next().expect("a name"));
            assert!(FILES.iter().any(|(path, _, _)| *path == file), "{file}");
        }
    }
}

#[test]
fn picture_waits_for_the_one_before() {
    let mut drawing = Drawing::default();
    drawing.handle_sent(Kind::Planned);
    assert!(!drawing.is_ready(Kind::Planned) && drawing.is_ready(Kind::Original));
    for other in [&[][..], &[0], &[2, 2], &[3], &[255]] {
        drawing.handle_drawn(other);
        assert!(!drawing.is_ready(Kind::Planned), "{other:?}");
    }
    drawing.handle_drawn(&[2]);
    assert!(drawing.is_ready(Kind::Planned));
}

#[tokio::test]
async fn next_free_port_is_taken() {
    let first = bind(PORT)
        .await
        .expect("a port")
        .local_addr()
        .expect("bound")
        .port();
    let holder = bind(first).await.expect("a port");
    let held = holder.local_addr().expect("bound").port();
    let next = bind(held)
        .await
        .expect("another port")
        .local_addr()
        .expect("bound")
        .port();
    assert!(next > held);
}
