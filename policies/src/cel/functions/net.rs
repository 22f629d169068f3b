//! Addresses and networks.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::value::Cidr;
use crate::cel::{EvalError, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn invalid(what: &str, text: &str) -> EvalError {
    EvalError::BadValue(format!(
        "{what} Address {:?} parse error during conversion from string",
        short(text)
    ))
}

/// Reads an address; neither one with a zone nor IPv4 inside IPv6 is taken, as in Kubernetes.
pub(super) fn ip(text: &str) -> Result<IpAddr, EvalError> {
    let address: IpAddr = text.parse().map_err(|_| invalid("IP", text))?;
    match address {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => Err(invalid("IP", text)),
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(address),
    }
}

pub(super) fn cidr(text: &str) -> Result<Cidr, EvalError> {
    let bad = || invalid("CIDR", text);
    let (address, digits) = text.split_once('/').ok_or_else(bad)?;
    let address = ip(address).map_err(|_| bad())?;
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    let prefix: u8 = digits.parse().ok().filter(|_| canonical).ok_or_else(bad)?;
    if prefix > bits(address) {
        return Err(bad());
    }
    Ok(Cidr { address, prefix })
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(four) & mask))
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(six) & mask))
        }
    }
}

pub(super) fn of_ip(name: &str, address: IpAddr) -> Evaluated {
    Ok(Value::Bool(match name {
        "family" => return Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => link_local_multicast(address),
        "isLinkLocalUnicast" => link_local(address),
        "isGlobalUnicast" => {
            let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
            !(broadcast
                || address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || link_local(address))
        }
        _ => return Err(EvalError::NoSuchOverload),
    }))
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(super) fn of_cidr(name: &str, network: &Cidr, rest: &[Value]) -> Evaluated {
    let contains = |address: IpAddr| {
        bits(address) == bits(network.address)
            && masked(address, network.prefix) == masked(network.address, network.prefix)
    };
    Ok(match (name, rest) {
        ("ip", []) => Value::Ip(network.address),
        ("prefixLength", []) => Value::Int(i64::from(network.prefix)),
        ("masked", []) => Value::Cidr(Cidr {
            address: masked(network.address, network.prefix),
            prefix: network.prefix,
        }),
        ("containsIP", [Value::Ip(address)]) => Value::Bool(contains(*address)),
        ("containsIP", [Value::String(text)]) => Value::Bool(contains(ip(text)?)),
        ("containsCIDR", [Value::Cidr(other)]) => Value::Bool(holds(network, other, contains)),
        ("containsCIDR", [Value::String(text)]) => {
            Value::Bool(holds(network, &cidr(text)?, contains))
        }
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn holds(network: &Cidr, other: &Cidr, contains: impl Fn(IpAddr) -> bool) -> bool {
    other.prefix >= network.prefix && contains(other.address)
}
