// The tokens of frame.protocols that the core knows, with their labels; all from schemas/protocols.tsv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frame/dissection.hpp"

namespace acapella {

enum class Token : std::uint8_t {
#define ACAPELLA_TOKEN(name, text, label, layer) name,
#define ACAPELLA_APPLICATION(text, label)
#include "tokens.inc"
#undef ACAPELLA_TOKEN
#undef ACAPELLA_APPLICATION
    count_
};

enum class Layer : std::uint8_t { kPhysical, kLink, kNetwork, kTransport, kTunnel, kGlue, kApplication };

std::string_view text_of(Token token);   // as in frame.protocols
std::string_view label_of(Token token);  // as in `stack`; empty for glue
Layer layer_of(Token token);

// What tshark writes, looked up by text: any token that the table lacks is an application.
Layer layer_of(std::string_view token);
std::string label_of(std::string_view token);  // default: upper case

// "eth:ethertype:ip:tcp" and "Ethernet/IPv4/TCP" of what the core found, without anything above it.
std::string protocols_of(const Dissection& dissection);
std::string stack_of(const Dissection& dissection);
// Whether a header has a place in `stack` that identifies it: it has a label, and is no extension header of
// IPv6 that only some packets of a flow have (hop-by-hop, routing, fragment, destination options).
bool has_position(Token token);
bool has_position(std::string_view token);
// The place, from 1, of the last header found so far among those that have one.
std::uint16_t last_position(const Dissection& dissection);

}  // namespace acapella
