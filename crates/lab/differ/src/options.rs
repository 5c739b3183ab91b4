//! Arguments that both kinds of run take.

/// Help text about the options.
pub const HELP: &str = "\
  --seed N      first seed (0)
  --runs N      inputs (1000; without a bound if --minutes is given); two processors run about 400 programs of calls a
                second, a million in an hour
  --minutes M   stop after this time
  --explain     print each explained difference, too
  --first       stop at the first difference without a reason
  --only N,N    packets: of the inputs of the range, run those with these seeds alone (an input may follow from others
                before it)";

/// Begin of the line that `--first` prints before the seed of the difference.
pub const FIRST: &str = "first difference: seed ";

/// Options of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
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
    /// Seeds of the inputs to run; all if there are none.
    pub only: Vec<u64>,
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
                number_of(argument, value)
            };
            match argument.as_str() {
                "--seed" => options.seed = number()?,
                "--runs" => options.runs = Some(number()?),
                "--minutes" => options.minutes = Some(number()?),
                "--explain" => options.explain = true,
                "--first" => options.first = true,
                "--only" => {
                    let value = rest.next().ok_or("--only takes seeds, as in 7,9")?;
                    let seeds = value.split(',').map(|seed| number_of(argument, seed));
                    options.only = seeds.collect::<Result<_, _>>()?;
                }
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

fn number_of(argument: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{argument} takes a number, not `{value}`"))
}

#[test]
fn options_are_read_and_wrong_ones_told() {
    let of = |text: &str| Options::of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let all = of("--seed 7 --runs 20 --minutes 2 --explain --first --only 8,9").expect("options");
    let only = vec![8, 9];
    assert_eq!(all, Options { seed: 7, runs: Some(20), minutes: Some(2), explain: true, first: true, only });
    assert_eq!(of("--seed 7").expect("options").goal(), Some(1000));
    assert_eq!(of("--minutes 7").expect("options").goal(), None);
    assert_eq!(of("--seed x").expect_err("no number"), "--seed takes a number, not `x`");
    assert_eq!(of("--only 8,").expect_err("no number"), "--only takes a number, not ``");
    assert!(of("--speed 1").expect_err("unknown").contains("--seed N"));
}
