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

// A request's stream depends on its seed and on how many tokens it has emitted, on nothing else.
// Seeds are below 2^53, which a number holds exactly; Math.imul keeps 32 bits of a product.
function generator(seed, position) {
  const mix = (x) => {
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
    return (x ^ (x >>> 16)) >>> 0;
  };
  let state = mix(mix(mix(position + 1) ^ Math.floor(seed / 2 ** 32)) ^ (seed % 2 ** 32));
  const bits = () => mix((state = (state + 0x9e3779b9) >>> 0));
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
  request_seeds: true,
  ragged: true,
};

function answer({ id, drafts, draft_rows, target_rows, root_row, seed, position = 0 }) {
  const [draft, p, q] = drafts.length
    ? [drafts[0], draft_rows[0], target_rows[0]]
    : [[], [], [root_row]];
  if ([...p, ...q].some((row) => row.includes(null))) {
    return { type: "error", id, message: "a row has NaN" };
  }
  return { type: "result", id, ...verify(draft, p, q, generator(seed, position)), carry: null };
}

const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const request = JSON.parse(line);
  if (request.type === "bye") process.exit(0);
  const reply = request.type === "hello" ? declaration : answer(request);
  process.stdout.write(JSON.stringify(reply) + "\n");
});
