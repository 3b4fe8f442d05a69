// JSON in lines, with every name, text and number as it was written. Parsed and written again a long number would be
// another one, a name that comes twice would come once, and an escape would be the character that it stands for.
const PARTS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;
const DEEPEST = 100;

/** A line for each member; null for what is no JSON, or so deep that it would be mostly indentation. */
export function laidOut(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [part] of text.matchAll(PARTS)) {
    const begins = before === "{" || before === "[";
    if (part === "}" || part === "]") {
      depth -= 1;
      out += begins ? part : line() + part;
    } else {
      out += begins || before === "," ? line() + part : part;
      if (part === ":") out += " ";
      if ((part === "{" || part === "[") && ++depth > DEEPEST) return null;
    }
    before = part;
  }
  return out;
}
