fn main() {
    let path = std::env::args().nth(1).expect("a directory");
    let db = rocksdb::DB::open_default(path).expect("open");
    db.put(b"key", b"value").expect("put");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    println!("ok");
}
