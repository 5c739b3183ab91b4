//! `millstream run`: an unmodified program on our stack. It says by the environment what stack is meant, and has the
//! dynamic linker load libmillstream_preload before the program's own libraries.

use crate::command::CliResult;
use crate::config::StackArgs;
use crate::tell::{Form, Launch};
use clap::{Args as ClapArgs, ValueEnum};
use pio::{OpenError, User};
use sock::Settings;
use sock::program::Program;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The library's name.
const LIBRARY: &str = "libmillstream_preload.so";
/// Environment variable that names another place for it.
const NAMED: &str = "MILLSTREAM_PRELOAD";

/// Flags of `millstream run`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Preset: `latency` busy-polls for 200 microseconds before it sleeps; `throughput` sleeps at once and saves CPU
    /// time.
    #[arg(long)]
    profile: Option<Profile>,
    /// User that runs the program instead of root; the link is still opened with root's rights.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Action if the link cannot be opened: `kernel` runs the program on the kernel's TCP with a warning, `none`
    /// fails with an error that names the remedy.
    #[arg(long, value_enum, value_name = "none|kernel", default_value_t = Fallback::None)]
    fallback: Fallback,
    /// Fail wherever a connection would run on the kernel: the link cannot be opened, the launcher cannot reach the
    /// program, or the link cannot carry a socket. Loopback connections are the kernel's in any case.
    #[arg(long)]
    require: bool,
    /// Print no report at the end. The report on standard error counts the sockets on the stack and on the kernel; with
    /// --json it is an object.
    #[arg(short, long)]
    quiet: bool,
    /// Become the program, which keeps this process's number, instead of waiting for its end. If the program is killed
    /// the report comes late. The default with --quiet, and under systemd (by SYSTEMD_EXEC_PID, LISTEN_PID or
    /// NOTIFY_SOCKET).
    #[arg(long)]
    exec: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Where a program goes whose link cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fallback {
    /// Fail with an error.
    None,
    /// Run on the kernel's TCP.
    Kernel,
}

/// A choice of settings.
#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    /// Busy-poll for 200 microseconds before sleeping.
    Latency,
    /// Sleep at once.
    Throughput,
}

impl Profile {
    /// Settings that it stands for; what is said elsewhere wins.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Profile::Latency => &[("spin_us", "200")],
            Profile::Throughput => &[("spin_us", "0")],
        }
    }
}

/// `millstream run`.
pub(crate) fn run(args: &Args) -> CliResult {
    if sock::elevated() {
        return Err("this command has file capabilities or is set-user-ID: a program that it runs would not have those \
                    rights, or more of them than you; use `sudo millstream run --user NAME` instead"
            .into());
    }
    args.stack.refuse_path()?;
    let settings = args.stack.settings()?;
    let (program, arguments) = args.program.split_first().ok_or("which program?")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let why = if args.fallback == Fallback::Kernel { complaint(&settings.link)? } else { None };
    if let Some(why) = why {
        if args.require {
            return Err(format!("{why}, and --require forbids the kernel").into());
        }
        eprintln!("millstream: {why}: {} runs on the kernel", program.to_string_lossy());
        if let Some(name) = &args.user {
            become_user(name, None, &mut command)?;
        }
    } else {
        if settings.link.is_empty() {
            let program = program.to_string_lossy();
            return Err(format!(
                "no link is named, so {program} is not run: --link nic:IFACE runs it on the stack (`millstream doctor \
                 IFACE` tests one), --fallback kernel without a link on the kernel"
            )
            .into());
        }
        if !args.stack.names_link() && !args.quiet {
            let (program, link) = (program.to_string_lossy(), &settings.link);
            let is_default = *link == Settings::default().link;
            let why = if is_default { "the default without --link" } else { "which a setting names" };
            eprintln!("millstream: {program} runs on {link}, {why}");
        }
        has_interface(&settings.link)?;
        // A program may take a refusal of its sockets for something that passes, and wait for ever.
        let why = if args.require { complaint(&settings.link)? } else { None };
        if let Some(why) = why {
            return Err(format!("{why}; with --require {} is not run", program.to_string_lossy()).into());
        }
        return tell_of(settings, args, command);
    }
    become_program(command)
}

/// Becomes `command`, and returns only if that fails.
fn become_program(mut command: Command) -> CliResult {
    let error = command.exec();
    Err(format!("{}: {error}", command.get_program().to_string_lossy()).into())
}

/// Runs the program on the stack and sees to the report at its end.
fn tell_of(settings: Settings, args: &Args, mut command: Command) -> CliResult {
    let made = (!args.quiet).then(Launch::new).transpose();
    let launched = made.unwrap_or_else(|e| {
        eprintln!("millstream: what becomes of the launch will not be told: {e}");
        None
    });
    let form = if args.stack.json { Form::Json } else { Form::Text };
    let Some(told) = launched else {
        launch(settings, args, &mut command, None)?;
        return become_program(command);
    };
    let run = std::process::id();
    let waits = !args.exec && !is_supervised(run);
    if waits && let Some(child) = pio::child::fork()? {
        told.tell_after(&child, form);
    }
    let began = launch(settings, args, &mut command, Some(&told)).and_then(|()| {
        if waits {
            pio::child::die_with(run)?
        } else {
            told.begin(form)?
        }
        become_program(command)
    });
    told.take_back()?;
    began
}

/// Returns true if a supervisor knows the program by this process's number: systemd, as sd_listen_fds(3), sd_notify(3)
/// and systemd.exec(5) say.
fn is_supervised(own: u32) -> bool {
    let own = own.to_string();
    let named = ["SYSTEMD_EXEC_PID", "LISTEN_PID"].map(std::env::var_os);
    named.iter().flatten().any(|pid| *pid == *own) || std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Why the link cannot be opened, if it cannot. It is opened for a moment, as the program itself will do later: only
/// that tells, and a program that has bound a port for us can no longer go back to the kernel without root.
///
/// # Errors
/// The text is no link on any machine.
fn complaint(link: &str) -> Result<Option<String>, OpenError> {
    if link.is_empty() {
        return Ok(Some("no link is named (--link)".into()));
    }
    match pio::open(link, 1) {
        Ok(_) => Ok(None),
        Err(error @ OpenError::Spec { .. }) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// The interface that the link stands on is there.
fn has_interface(link: &str) -> Result<(), String> {
    let (kind, rest) = link.split_once(':').unwrap_or((link, ""));
    let name = rest.split(',').next().unwrap_or(rest);
    if matches!(kind, "nic" | "xdp" | "packet") && !pio::has_interface(name) {
        return Err(format!(
            "{link}: there is no interface {name} here; `ip link` lists those that there are"
        ));
    }
    Ok(())
}

/// Has `command` load the library, and tells that what it needs to know.
fn launch(mut settings: Settings, args: &Args, command: &mut Command, told: Option<&Launch>) -> CliResult {
    let shares = ["nic:", "packet:"].iter().any(|kind| settings.link.starts_with(kind));
    if shares && settings.share == 0 {
        // Workers of the program share their ports among themselves, and with no other launch.
        settings.share = std::process::id().into();
    }
    let library = library()?;
    let program = command.get_program();
    let why = sock::program::find(program).and_then(|path| Program::of(&path).complaint());
    if let Some(why) = why {
        let program = program.to_string_lossy();
        if args.require {
            return Err(format!("{program} {why}, and --require forbids the kernel").into());
        }
        eprintln!("millstream: {program} {why}: it runs on the kernel");
        if let Some(told) = told {
            told.fell_back(&program, why)?;
        }
    }
    if args.require {
        command.env("MILLSTREAM_REQUIRE", "1");
    }
    if let Some(told) = told {
        if let Some(name) = &args.user {
            told.give_to(User::called(name)?.id())?;
        }
        told.name_to(command);
    }
    if let Some(name) = &args.user {
        become_user(name, Some(&settings.link), command)?;
        // The dynamic linker would leave out what it may not read, and go on.
        File::open(&library)
            .map_err(|e| format!("{name} cannot read {}: {e}; name a copy in {NAMED}", library.display()))?;
    }
    for (name, value) in environment(&settings, args.profile) {
        command.env(name, value);
    }
    // The library reads no file of its own: everything is in the environment by now.
    command.env_remove("MILLSTREAM_CONFIG");
    command.env("LD_PRELOAD", preloads(library));
    Ok(())
}

/// This process and `command` are that user's from now on, with the rights that `link` takes, if there is one.
fn become_user(name: &str, link: Option<&str>, command: &mut Command) -> CliResult {
    let user = User::called(name)?;
    user.enter(link)?;
    let text = |text: &CStr| OsStr::from_bytes(text.to_bytes()).to_owned();
    command.env("HOME", text(&user.home)).env("USER", name).env("LOGNAME", name);
    Ok(())
}

/// Every setting that is not as it is anyway, as the library reads it.
fn environment(settings: &Settings, profile: Option<Profile>) -> Vec<(String, String)> {
    let plain = Settings::default().values();
    let of_profile = profile.map_or(&[][..], Profile::settings);
    let differs = |(now, before): &((&str, String), (&str, String))| now.1 != before.1;
    let mut all: Vec<_> =
        settings.values().into_iter().zip(plain).filter(differs).map(|(now, _)| now).collect();
    for (key, value) in of_profile {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((*key, (*value).to_owned()));
        }
    }
    all.into_iter().map(|(key, value)| (format!("MILLSTREAM_{}", key.to_uppercase()), value)).collect()
}

/// Returns the value of LD_PRELOAD: the library, and then its former value.
fn preloads(library: PathBuf) -> OsString {
    let mut all = library.into_os_string();
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        all.push(":");
        all.push(before);
    }
    all
}

/// Where the library lies: where `MILLSTREAM_PRELOAD` says, beside this program (as cargo builds it), or in `lib`
/// beside the folder that this program is in (as it is installed).
fn library() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(NAMED) {
        let named = PathBuf::from(named);
        let found = named.canonicalize().map_err(|e| format!("{NAMED} = {}: {e}", named.display()))?;
        return Ok(found);
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = program.parent().ok_or("a program lies in a folder")?;
    let places = ["deps", ".", "../lib"].map(|place| folder.join(place).join(LIBRARY));
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        let beside = folder.display();
        format!(
            "{LIBRARY} is not in {beside}; build it (cargo build -p millstream-preload) or name it in {NAMED}"
        )
    })
}

#[cfg(test)]
mod tests;
