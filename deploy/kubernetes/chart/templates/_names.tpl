{{/* The release's name, with "adjoin" where it lacks it: the prefix of every name. */}}
{{- define "adjoin.fullname" -}}
{{- if contains "adjoin" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-adjoin" (.Release.Name | trunc 43 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* By which pods of this release are chosen. Call it with (dict "root" $ "component" "worker"). */}}
{{- define "adjoin.selector" -}}
app.kubernetes.io/name: adjoin
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "adjoin.labels" -}}
{{ include "adjoin.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "adjoin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What every pod here is: no root, no rights, no access to the cluster's API. */}}
{{- define "adjoin.podSecurity" -}}
automountServiceAccountToken: false
# Their variables, such as ADJOIN_COORDINATOR_PORT, would be taken for flags.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "adjoin.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A quantity as Kubernetes reads it. Helm hands over a number of a file as a float, whose text may be 1.7e+10. */}}
{{- define "adjoin.quantity" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if eq (float64 .) (floor .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* The bytes of a quantity of memory, a whole number. */}}
{{- define "adjoin.bytes" -}}
{{- $text := include "adjoin.quantity" . -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (float64 (trimSuffix $unit $text)) (float64 (get $units $unit)) | floor | int64 -}}
{{- end -}}

{{/* The names of the workers that cert-manager makes certificates for, as a JSON list. */}}
{{- define "adjoin.workerNames" -}}
{{- $names := list -}}
{{- if eq .Values.worker.kind "DaemonSet" -}}
{{- $names = .Values.certificates.workerNames -}}
{{- if not $names -}}
{{- fail "certificates.source is cert-manager and worker.kind DaemonSet: certificates.workerNames has to list the nodes" -}}
{{- end -}}
{{- else -}}
{{- range until (int .Values.worker.replicas) -}}
{{- $names = append $names (printf "%s-worker-%d" (include "adjoin.fullname" $) .) -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}
