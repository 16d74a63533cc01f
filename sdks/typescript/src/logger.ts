/** Where a worker writes its log. */

export type LogFields = Readonly<Record<string, unknown>>;
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Any logger with these methods, for example that of pino through a small adapter. */
export type Logger = Readonly<Record<LogLevel, (message: string, fields: LogFields) => void>>;

const write = (level: LogLevel) => (message: string, fields: LogFields) =>
  console.error(`${level.toUpperCase()} driftq: ${message}`, fields);

/** Writes to the standard error, without debug messages. */
export const consoleLogger: Logger = {
  debug: () => {},
  info: write("info"),
  warn: write("warn"),
  error: write("error"),
};

/** A logger that adds fields, and that never throws: an error of the log must not end a worker. */
export function quietly(logger: Logger, added: LogFields = {}): Logger {
  const guard = (level: LogLevel) => (message: string, fields: LogFields) => {
    try {
      logger[level](message, { ...added, ...fields });
    } catch (error) {
      console.error("driftq: the logger failed:", error);
    }
  };
  return { debug: guard("debug"), info: guard("info"), warn: guard("warn"), error: guard("error") };
}
