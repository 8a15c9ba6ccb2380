//! Captures: pcap and pcapng files with any bytes, and their analysis.

use std::io::Cursor;

use rdt_lab::trace::{Limit, View, analyse, fields, scenes, timeline};

pub fn run(data: &[u8]) {
    let Ok(trace) = analyse(Cursor::new(data.to_vec()), None) else { return };
    for connection in &trace.connections {
        for field in fields(connection) {
            let numbers = [field.number(0), field.number(1)];
            assert!(
                numbers.into_iter().flatten().all(|number| number.is_finite() && number >= 0.0),
                "{field:?}"
            );
        }
        for sender in [0, 1] {
            let it = &connection.directions[sender];
            assert!(it.unique_bytes <= it.data_bytes, "unique bytes are some of all");
            let timeline = timeline(connection, sender);
            let whole: f64 = Limit::ALL.iter().map(|limit| timeline.share(*limit)).sum();
            assert!(whole == 0.0 || (whole - 1.0).abs() < 1e-6, "shares sum to {whole}");
            let _ = scenes(&View { connection, sender, id: "f", between: (0.0, 1.0) });
        }
    }
}
