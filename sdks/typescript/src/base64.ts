/** Base64 of bytes, also where there is no `Buffer`. */

/** Arguments of one call, which the stack bounds. */
const CHUNK = 8_192;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(text);
}

export function fromBase64(digits: string): Uint8Array {
  return Uint8Array.from(atob(digits), (digit) => digit.charCodeAt(0));
}
