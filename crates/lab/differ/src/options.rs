//! Arguments that both kinds of run take.

/// Help text about the options.
pub const HELP: &str = "\
  --seed N      first seed (0)
  --runs N      inputs (1000; without a bound if --minutes is given); two processors run about 300 programs of calls a
                second, a million in an hour
  --minutes M   stop after this time
  --explain     print each explained difference, too
  --first       stop at the first difference without a reason";

/// Begin of the line that `--first` prints before the seed of the difference.
pub const FIRST: &str = "first difference: seed ";

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Seed of the first input; the others follow it.
    pub seed: u64,
    /// Inputs to run.
    pub runs: Option<u64>,
    /// Time limit.
    pub minutes: Option<u64>,
    /// Explained differences are printed, too.
    pub explain: bool,
    /// The first difference without a reason ends the run.
    pub first: bool,
}

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    /// An unknown option, or a value that is no number, in a sentence.
    pub fn of(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || {
                let value = rest.next().ok_or(format!("{argument} takes a number"))?;
                value.parse().map_err(|_| format!("{argument} takes a number, not `{value}`"))
            };
            match argument.as_str() {
                "--seed" => options.seed = number()?,
                "--runs" => options.runs = Some(number()?),
                "--minutes" => options.minutes = Some(number()?),
                "--explain" => options.explain = true,
                "--first" => options.first = true,
                other => return Err(format!("no option `{other}`; the options are\n{HELP}")),
            }
        }
        Ok(options)
    }

    /// Inputs to run; `None` if only time ends the run.
    pub fn goal(&self) -> Option<u64> {
        self.runs.or(self.minutes.is_none().then_some(1000))
    }
}

#[test]
fn options_are_read_and_wrong_ones_told() {
    let of = |text: &str| Options::of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let all = of("--seed 7 --runs 20 --minutes 2 --explain --first").expect("options");
    assert_eq!(all, Options { seed: 7, runs: Some(20), minutes: Some(2), explain: true, first: true });
    assert_eq!(of("--seed 7").expect("options").goal(), Some(1000));
    assert_eq!(of("--minutes 7").expect("options").goal(), None);
    assert_eq!(of("--seed x").expect_err("no number"), "--seed takes a number, not `x`");
    assert!(of("--speed 1").expect_err("unknown").contains("--seed N"));
}
