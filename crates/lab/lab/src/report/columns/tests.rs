//! Goal: what was written is read back, gaps included.
use super::*;
use crate::tests::testing::{SMALL, small};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, RowAccessor};

fn read_back(name: &str, table: &[u8]) -> SerializedFileReader<std::fs::File> {
    let name = format!("millstream-{name}-{}.parquet", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, table).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    SerializedFileReader::new(file).unwrap()
}

#[test]
fn what_was_written_is_read_back() {
    let experiment = small(SMALL);
    let tasks = experiment.tasks(Some(2)).unwrap();
    let mut outcomes: Vec<Outcome> = tasks.iter().map(|task| crate::run(task).unwrap()).collect();
    outcomes[1].measures.remove("srtt_ms");
    outcomes[1].series.clear();
    let chapters = [Chapter {
        experiment: &experiment,
        outcomes: &outcomes,
        store: None,
        failures: Vec::new(),
        verdicts: &[],
        file: "small.toml",
    }];
    let mut table = Vec::new();
    runs(&chapters, &mut table).unwrap();
    let reader = read_back("runs", &table);
    let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), outcomes.len());
    for (row, outcome) in read.iter().zip(&outcomes) {
        assert_eq!(row.get_string(0).unwrap(), "small");
        assert_eq!(row.get_string(1).unwrap(), &outcome.point["path.rtt_ms"]);
        assert_eq!(row.get_long(2).unwrap(), outcome.seed as i64);
        for (name, field) in row.get_column_iter().skip(3) {
            let value = match field {
                Field::Double(value) => Some(*value),
                _ => None,
            };
            assert_eq!(value, outcome.measures.get(name).copied(), "{name}");
        }
    }
    let mut table = Vec::new();
    series(&chapters, &mut table).unwrap();
    let reader = read_back("series", &table);
    let mut read = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    for sample in rows(&chapters).flat_map(|run| samples(run, &run.1.series)) {
        let row = read.next().unwrap();
        assert_eq!(row.get_long(2).unwrap(), sample.run.1.seed as i64);
        assert_eq!(row.get_double(3).unwrap(), sample.time);
        assert_eq!(row.get_int(4).ok(), sample.flow);
        assert_eq!(row.get_string(5).unwrap(), sample.name);
        assert_eq!(row.get_double(6).unwrap(), sample.value);
    }
    assert!(read.next().is_none());
}

#[test]
fn flows_have_numbers() {
    assert_eq!((split("cwnd 2"), split("queue_bytes")), (("cwnd", Some(2)), ("queue_bytes", None)));
    assert_eq!(split("odd name"), ("odd name", None));
}
