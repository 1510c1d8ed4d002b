//! Runs the embedded broker for other programs: `broker --port N [--dir DIRECTORY] [--quick]`; `--quick-v1` has
//! transactions of version 1.
//!
//! It prints its address and runs until its standard input ends or it is killed.

use std::error::Error;
use std::io::Read;

use kstreams_broker::{Broker, BrokerConfig};

#[expect(clippy::print_stdout, reason = "whoever started it wants to know the address")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Broker::builder();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        builder = match argument.as_str() {
            "--port" => builder.port(arguments.next().ok_or("--port needs a number")?.parse()?),
            "--dir" => builder.directory(arguments.next().ok_or("--dir needs a directory")?),
            "--quick" => builder.config(BrokerConfig::quick()),
            "--quick-v1" => {
                let mut config = BrokerConfig::quick();
                config.transaction_version = 1;
                builder.config(config)
            }
            other => return Err(format!("unknown argument {other}").into()),
        };
    }
    let broker = builder.start()?;
    println!("{}", broker.bootstrap());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    broker.stop();
    Ok(())
}
