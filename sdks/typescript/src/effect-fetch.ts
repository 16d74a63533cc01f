/** The HTTP request of an effect, with its failures classified. */

import { textOf } from "./errors.js";
import { isConnectError } from "./http.js";
import { Declined, NotHappened } from "./outcomes.js";

/**
 * Like `fetch`, for the one request of an effect that acts. A refused connection did nothing, and a status is
 * read by {@link errorOfStatus}. Other requests of the same execution must use `fetch`: when they fail, the one
 * before them may have acted. Redirects are not followed, because the request before a redirect may have acted.
 */
export async function effectFetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
  let request: Request;
  try {
    request = new Request(input, { ...init, redirect: "manual" });
    request.signal.throwIfAborted();
  } catch (error) {
    throw new NotHappened(textOf(error), { cause: error });
  }
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (isConnectError(error)) throw new NotHappened(textOf(error), { cause: error });
    throw error;
  }
  if (response.ok) return response;
  // An unread body would keep its connection.
  await response.body?.cancel().catch(() => {});
  throw errorOfStatus(response.status, `status ${response.status}`);
}

/**
 * What the HTTP status of a failure says: 429 did not happen, other statuses from 400 to 499 are declined, and
 * after 408, 409, 425 and all others the outcome is unknown.
 */
export function errorOfStatus(status: number, reason: string): Error {
  if (status === 429) return new NotHappened(reason);
  const isDeclined = status >= 400 && status < 500 && ![408, 409, 425].includes(status);
  return isDeclined ? new Declined(reason, status) : new Error(reason);
}
