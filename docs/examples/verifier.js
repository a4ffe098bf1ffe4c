// A verifier in JavaScript behind draftproof's program protocol: standard speculative decoding with a
// generator of its own.
//
//     draftproof check "program:node verifier.js"
//
// Replace `verify` by a call of your own function; the rest reads and writes the protocol.
// One JSON object a line comes in on standard input, one goes out on standard output.
"use strict";

// ---- the function under test ---------------------------------------------------------------

// The smallest v with weights[0] + .. + weights[v] > u * sum: never a token of weight 0.
function draw(weights, u) {
  const sum = weights.reduce((a, b) => a + b, 0);
  let reached = 0;
  let last = 0;
  for (let v = 0; v < weights.length; v++) {
    reached += weights[v];
    if (weights[v] > 0) last = v;
    if (reached > u * sum) return v;
  }
  return last; // u * sum was rounded up to sum
}

// p[i] and q[i] are the draft and target rows after the first i tokens of `draft`; q has one more.
function verify(draft, p, q, random) {
  for (let i = 0; i < draft.length; i++) {
    const token = draft[i];
    if (random() * p[i][token] < q[i][token]) continue;
    const owed = q[i].map((target, v) => Math.max(target - p[i][v], 0));
    const row = owed.some((weight) => weight > 0) ? owed : q[i];
    return { accepted: draft.slice(0, i), next: draw(row, random()) };
  }
  return { accepted: draft, next: draw(q[draft.length], random()) };
}

// mulberry32, twice for 53 bits: a different seed gives an unrelated stream.
function generator(seed) {
  let state = seed >>> 0;
  const bits = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  return () => ((bits() >>> 5) * 67108864 + (bits() >>> 6)) / 9007199254740992;
}

// ---- the protocol ----------------------------------------------------------------------------

const declaration = {
  type: "declare",
  protocol: 1,
  name: "example in JavaScript",
  version: "1",
  schemes: ["token_by_token"],
  drafts: [0, 1],
  uniforms: false,
  ragged: true,
};

// Requests of one seed are told apart by their place in the run, as in a server that lives on.
let served = 0;

function answer(request) {
  const random = generator(request.seed * 0x9e3779b1 + served++ * 0x85ebca6b);
  const [draft, p, q] = request.drafts.length
    ? [request.drafts[0], request.draft_rows[0], request.target_rows[0]]
    : [[], [], [request.root_row]];
  return { type: "result", id: request.id, ...verify(draft, p, q, random), carry: null };
}

const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const request = JSON.parse(line);
  if (request.type === "bye") process.exit(0);
  const reply = request.type === "hello" ? declaration : answer(request);
  process.stdout.write(JSON.stringify(reply) + "\n");
});
