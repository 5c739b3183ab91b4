//! The estimator against RFC 6298 in floating point.

use base::{Duration, Instant};

use super::Input;
use crate::Config;
use crate::timers::rtt::{Rtt, backed_off};

/// Model of `rtt`.
pub fn rtt(data: &[u8]) {
    let mut input = Input::new(data);
    let config = Config::default();
    let mut real = Rtt::new();
    assert_eq!(real.rto(&config), config.rto_initial.max(config.rto_min));
    let (mut srtt, mut rttvar, mut error) = (0.0f64, 0.0f64, 0.0f64);
    let (mut now, mut min, mut reached) = (0u64, f64::MAX, 0u64);
    while !input.is_empty() {
        let micros = 1 + u64::from(input.u32() >> (input.u8() % 32));
        let samples = 1 + input.below(if micros % 2 == 0 { 1 } else { 300 });
        // From one sample to the next at most two minutes pass.
        now += (u64::from(input.u8()) << 29) >> input.below(8);
        let smooth = real.srtt().as_micros() as f64;
        real.sample_of(Duration::from_micros(micros), samples, Instant::from_nanos(now));
        let r = micros.min(200_000_000) as f64;
        // In steps of 34 s, of which nine may pass.
        let forgotten = (now >> 35) - reached > 9;
        if r <= min || forgotten {
            (min, reached) = (if smooth == 0.0 { r } else { r.min(smooth) }, now >> 35);
        }
        if srtt == 0.0 {
            (srtt, rttvar) = (r, r / 2.0);
        } else {
            rttvar += ((srtt - r).abs() - rttvar) / (4.0 * f64::from(samples));
            srtt += (r - srtt) / (8.0 * f64::from(samples));
            // Each update rounds by at most half a step of 1/16 us, and old roundings decay no faster than
            // this.
            error += 1.0 / 32.0;
        }
        let micros_of = |d: Duration| d.as_nanos() as f64 / 1_000.0;
        assert!((micros_of(real.srtt()) - srtt).abs() <= 0.2 + error, "{:?} is not {srtt} us", real.srtt());
        assert!(
            (micros_of(real.rttvar()) - rttvar).abs() <= 0.2 + 2.0 * error,
            "{:?} is not {rttvar} us",
            real.rttvar()
        );
        assert_eq!(micros_of(real.min_rtt()), min);
        for rto_above_srtt in [false, true] {
            let config = Config { rto_above_srtt, ..config.clone() };
            let least = if rto_above_srtt { config.rto_min } else { Duration::from_millis(1) };
            let exact = real.srtt() + (4 * real.rttvar()).max(least);
            assert_eq!(real.rto(&config), exact.clamp(config.rto_min, config.rto_max));
        }
        let rto = real.rto(&config);
        let n = input.u8();
        assert_eq!(backed_off(rto, n, &config), (0..n).fold(rto, |rto, _| (2 * rto).min(config.rto_max)));
    }
}
