/** Schemas of any library that implements Standard Schema: zod, valibot, arktype. */

/** The interface that the specification asks to copy. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Result<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<Issue> };

interface Issue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** What a schema accepts. */
export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];
/** What a schema returns. */
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** Returns the validated value, or what is wrong with it. */
export async function validate(
  schema: StandardSchema,
  value: unknown,
): Promise<{ value: unknown; wrong?: undefined } | { wrong: string }> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return { value: result.value };
  return { wrong: result.issues.map(textOfIssue).join("; ") };
}

function textOfIssue({ path, message }: Issue): string {
  const at = path?.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return at ? `${at}: ${message}` : message;
}
