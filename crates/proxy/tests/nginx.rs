//! A real server: nginx.

use std::process::{Child, Command, Stdio};

use crate::common::{Proxy, program, settings, until};

struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn nginx_serves_files_ranges_and_conditions_through_the_proxy() {
    let Some(nginx) = program("nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr;\n\
         events {{}}\n\
         http {{ access_log off; if_modified_since before;\n\
         gzip on; gzip_types text/plain; gzip_min_length 1;\n\
         client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
         fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
         server {{ listen 127.0.0.1:{port}; root {root}/www; }} }}\n"
    );
    std::fs::create_dir(folder.path().join("www")).unwrap();
    let content: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(folder.path().join("www/numbers.txt"), &content).unwrap();
    std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let child = Command::new(nginx)
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(folder.path().join("nginx.conf"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _nginx = Nginx(child);
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;

    let proxy = Proxy::start(settings()).await;
    let url = format!("http://127.0.0.1:{port}/numbers.txt");
    let Some(out) = proxy.curl(&[&url]).await else { return };
    assert!(out.text == content, "{} bytes of {}", out.text.len(), content.len());
    let out = proxy.curl(&["--compressed", &url]).await.unwrap();
    assert!(out.text == content, "compressed: {}", out.errors);
    let out = proxy.curl(&["-r", "2-5", &url]).await.unwrap();
    assert_eq!(out.text, content[2..6]);
    let since = ["-i", "-H", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", &url];
    let out = proxy.curl(&since).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{}", out.text);
    let out = proxy.curl(&["-i", "-d", "x", &url]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 405 "), "{}", out.text);
}
