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
{{ .Values.image.repository }}:{{ .Values.image.tag }}
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
