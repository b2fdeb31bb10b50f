// The tokens of frame.protocols known to the core, with their labels, from schemas/protocols.tsv.
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

// Like layer_of(Token), for text printed by tshark. A token that is not in the table is an application.
Layer layer_of(std::string_view token);
std::string label_of(std::string_view token);  // default: upper case

// Returns the headers found by the core as "eth:ethertype:ip:tcp" or "Ethernet/IPv4/TCP".
std::string protocols_of(const Dissection& dissection);
std::string stack_of(const Dissection& dissection);
// Returns true if a header is counted for positions in `stack`: it has a label and is not one of the IPv6
// extension headers that occur only in some packets of a flow (hop-by-hop, routing, fragment, destination
// options).
bool has_position(Token token);
bool has_position(std::string_view token);
// Returns the position, from 1, of the last header found so far that has a position.
std::uint16_t last_position(const Dissection& dissection);

}  // namespace acapella
